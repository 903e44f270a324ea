#!/bin/sh
# SPDX-License-Identifier: MIT
# Reports written by hand against what is printed for them, and no line is too long. Prints TAP.
# UPDATE_GOLDEN=1 writes the expected files anew. usage: test-report.sh RENDER FOLDER
set -u
render=$1 folder=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
n=0 failed=0
for report in "$folder"/*.json; do
    n=$((n + 1)) expected=${report%.json}.txt
    [ -z "${UPDATE_GOLDEN:-}" ] || LC_ALL=C "$render" <"$report" >"$expected"
    if LC_ALL=C "$render" <"$report" >"$out" && diff -u "$expected" "$out" &&
        awk 'length > 100 && !/ untitled  needs / { print "too long: " $0; bad = 1 } END { exit bad }' "$out"; then
        echo "ok $n - $(basename "$report" .json)"
    else
        echo "not ok $n - $(basename "$report" .json)"
        failed=1
    fi
done
echo "1..$n"
[ "$n" -gt 0 ] && exit "$failed"
exit 1
