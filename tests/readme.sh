#!/bin/sh
# SPDX-License-Identifier: MIT
# What the README shows is what memplan prints: every console block is run and compared.
# UPDATE_README=1 writes the blocks anew. Prints TAP. usage: readme.sh PROGRAM README
set -u
program=$(realpath "$1") readme=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/memplan"
export LC_ALL=C COLUMNS=100 NO_COLOR=1 PATH="$work/bin:$PATH"
export XDG_STATE_HOME="$work/state" MEMPLAN_MODELS="$(dirname "$readme")/models"

# The blocks: their command in N.cmd, what follows it in N.want.
awk -v work="$work" '
    /^```console$/ { n++; inside = 1; printf "" > (work "/" n ".want"); next }
    /^```$/ { inside = 0 }
    inside && /^\$ / { print substr($0, 3) > (work "/" n ".cmd"); next }
    inside { print > (work "/" n ".want") }
' "$readme"

n=0 failed=0
while [ -f "$work/$((n + 1)).cmd" ]; do
    n=$((n + 1))
    command=$(sed 's|^\./dev run |memplan |' "$work/$n.cmd")
    (cd "$work" && sh -c "$command" >"$work/$n.out" 2>&1 </dev/null)
    if cmp -s "$work/$n.out" "$work/$n.want"; then
        echo "ok $n - $command"
    else
        echo "not ok $n - $command"
        diff -u "$work/$n.want" "$work/$n.out" | sed 's/^/# /'
        failed=1
    fi
done
echo "1..$n"
[ "$n" -gt 0 ] || exit 1
[ -n "${UPDATE_README:-}" ] || exit "$failed"
awk -v work="$work" '
    /^```console$/ { n++; print; getline; print; inside = 1
        while ((getline line < (work "/" n ".out")) > 0) print line
        next }
    /^```$/ { inside = 0 }
    !inside { print }
' "$readme" >"$work/README.md" && cp "$work/README.md" "$readme"
