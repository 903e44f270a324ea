#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library exports what the header declares and nothing else; versions agree.
# usage: symbols.sh LIBRARY HEADER VERSION
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# declarations: MEMPLAN_API <type> name(
tr '\n' ' ' <"$2" | sed 's/MEMPLAN_API/\n&/g' |
    sed -n 's/^MEMPLAN_API [^(;]*[ *]\(memplan_[a-z0-9_]*\)(.*/\1/p' | sort >"$work/declared"
nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' |
    grep -v -E '^(__asan_|__ubsan_|__odr_asan|_init$|_fini$)' | sort >"$work/exported" || true

[ -s "$work/declared" ] || { echo "no declaration found in $2"; exit 1; }
# The library of C++ is inside of it, where there is a static one.
if readelf -d "$1" | grep -E 'NEEDED.*lib(stdc\+\+|gcc_s)' &&
    echo 'int main(void) { return 0; }' | g++ -x c++ - -static-libstdc++ -o "$work/static" 2>"$work/log"; then
    echo "$1 needs the C++ library to run"
    exit 1
fi
grep -q "MEMPLAN_VERSION_STRING *\"$3\"" "$2" || { echo "$2: version is not $3"; exit 1; }
diff -u "$work/declared" "$work/exported"
