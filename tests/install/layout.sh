#!/bin/sh
# SPDX-License-Identifier: MIT
# `meson install` puts what files.txt lists where it says, and what it puts there works from where it
# was moved to. Prints TAP.
# usage: layout.sh SOURCE BUILD PREFIX LIBDIR VERSION FILES CC [CXX]
set -u
source=$1 build=$2 prefix=$3 libdir=$4 version=$5 files=$6 cc=$7 cxx=${8:-}
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 failed=0

# report NAME COMMAND...
report() {
    name=$1
    n=$((n + 1))
    shift
    if "$@" >"$work/log" 2>&1 </dev/null; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$work/log"
        failed=1
    fi
}

skip() {
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}

. "$(dirname "$0")/use.sh"

# The plugin is there where Slurm's header was.
same_files() {
    hidden=/spank/d
    [ ! -f "$build/integrations/slurm/spank_memplan.so" ] || hidden=/^#/d
    {
        sed -e '/^#/d' -e "$hidden" -e "s,{libdir},$libdir,g" -e "s,{version},$version,g" "$files"
        (cd "$source/models" && find . -type f) | sed 's,^\.,share/memplan/models,'
    } | sort >"$work/expected"
    (cd "$work/moved" && find . ! -type d) | sed 's,^\./,,' | sort | diff -u "$work/expected" -
}

# The name that programs record, and the one node of the symbol map.
sound_library() {
    library=$work/moved/$libdir/libmemplan.so
    readelf -d "$library" >"$work/dynamic"
    grep -q 'SONAME.*\[libmemplan\.so\.0\]' "$work/dynamic" || return 1
    ! grep -E 'RPATH|RUNPATH' "$work/dynamic" || return 1
    [ "$(readlink "$library")" = libmemplan.so.0 ] || return 1
    nm -D --defined-only "$library" >"$work/symbols"
    grep -c ' T memplan_.*@@MEMPLAN_0$' "$work/symbols" || return 1
    ! grep -v -e '@@MEMPLAN_0$' -e ' A MEMPLAN_0$' "$work/symbols"
}

command_runs() {
    LD_LIBRARY_PATH=$work/moved/$libdir "$work/moved/bin/memplan" --version | grep -F "$version"
}

DESTDIR=$work/tree
export DESTDIR
report 'it installs' meson install -C "$build" --no-rebuild
unset DESTDIR
mv "$work/tree$prefix" "$work/moved" # as no path of the build knows it

report 'the files are those of the list' same_files
report 'soname, search path and symbols' sound_library
report 'the command runs' command_runs
for standard in c11 c17; do
    report "the header alone as $standard" alone "$cc" "$standard" c -I"$work/moved/include"
done
for standard in c++11 c++17 c++20; do
    if [ -n "$cxx" ]; then
        report "the header alone as $standard" alone "$cxx" $standard c++ -I"$work/moved/include"
    else
        skip "the header alone as $standard" 'no C++ compiler'
    fi
done

export LD_LIBRARY_PATH="$work/moved/$libdir"
export PKG_CONFIG_PATH="$work/moved/$libdir/pkgconfig"
plan=$source/models/llama-3.2-1b.json
sed -i "s,^prefix=.*,prefix=$work/moved," "$work/moved/$libdir/pkgconfig/memplan.pc"
report 'a launcher by pkg-config' use_pkg_config "$cc"
report 'it launches, and refuses' launches "$work/by-pkg-config" "$plan"
if command -v cmake >/dev/null 2>&1; then
    report 'a launcher by CMake' use_cmake "$cc" -DCMAKE_PREFIX_PATH="$work/moved"
    report 'it launches, and refuses' launches "$work/cmake/launcher" "$plan"
    report 'CMake refuses another version' cmake_refuses -DCMAKE_PREFIX_PATH="$work/moved"
else
    skip 'a launcher by CMake' 'cmake is not installed'
fi
echo "1..$n"
exit "$failed"
