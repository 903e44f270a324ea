#!/bin/sh
# SPDX-License-Identifier: MIT
# Golden cases: NAME.cmd is a shell script that calls memplan; NAME.out is all it printed, and its
# exit code. Cases run in a scratch folder with $GOLDEN (the folder of the cases) and the presets.
# UPDATE_GOLDEN=1 writes the expected files anew; cases named in
# $SKIP_GOLDEN are left out. GOLDEN_PART=I/N takes every Nth case from the Ith on, 0 first, so
# that several run side by side. Prints TAP.
# usage: run-golden.sh PROGRAM FOLDER [NAME...]
set -u
program=$(realpath "$1") GOLDEN=$(realpath "$2")
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/memplan"
export LC_ALL=C COLUMNS=100 NO_COLOR=1 GOLDEN PATH="$work/bin:$PATH"
export MEMPLAN_MODELS="$GOLDEN/../../models"
export FAKES="${FAKES:-$(dirname "$program")/../tests/probe}"
[ $# -gt 0 ] || set -- "$GOLDEN"/*.cmd

# What became of runs on this machine is no part of a case.
export XDG_STATE_HOME="$work/run/.state"

part=${GOLDEN_PART:-0/1}
n=0 failed=0 place=0
for case in "$@"; do
    name=$(basename "$case" .cmd)
    [ -f "$GOLDEN/$name.cmd" ] || continue
    place=$((place + 1))
    [ $((place % ${part#*/})) = "${part%/*}" ] || continue
    n=$((n + 1))
    case " ${SKIP_GOLDEN:-} " in
    *" $name "*)
        echo "ok $n - $name # SKIP not in this build"
        continue
        ;;
    esac
    mkdir "$work/run"
    (cd "$work/run" && sh "$GOLDEN/$name.cmd" >"$work/stdout" 2>"$work/stderr" </dev/null)
    code=$?
    { cat "$work/stdout"; sed 's/^/stderr: /' "$work/stderr"; echo "exit: $code"; } >"$work/out"
    rm -rf "$work/run"
    [ -z "${UPDATE_GOLDEN:-}" ] || cp "$work/out" "$GOLDEN/$name.out"
    if diff -u "$GOLDEN/$name.out" "$work/out" >"$work/diff" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$work/diff"
        failed=1
    fi
done
echo "1..$n"
[ "$n" -gt 0 ] && exit "$failed"
echo "Bail out! no case in $GOLDEN"
exit 1
