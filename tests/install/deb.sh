#!/bin/sh
# SPDX-License-Identifier: MIT
# The Debian package is built, installed, used and removed. Needs root; skipped where that, a tool or
# a library is missing, or where memplan is installed already. Prints TAP.
# usage: deb.sh SOURCE; MEMPLAN_DEBS may name a folder of packages that are built already.
set -u
source=$1
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
unset LD_LIBRARY_PATH # which would name the build's library
packages='libmemplan0 libmemplan-dev memplan memplan-slurm'
n=0 failed=0

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

is_installed() {
    dpkg-query -W -f '${Status}\n' $packages 2>/dev/null | grep -v ' not-installed$' | grep -q .
}

[ "$(id -u)" = 0 ] || skip_all 'packages are installed by root only'
for tool in dpkg-buildpackage dh pkg-config cmake; do
    command -v $tool >/dev/null 2>&1 || skip_all "$tool is not installed"
done
! is_installed || skip_all 'memplan is installed as a package already'
(cd "$source" && DEB_BUILD_PROFILES=nocheck dpkg-checkbuilddeps) >/dev/null 2>&1 ||
    skip_all 'what the package is built with is not installed as packages'

work=$(mktemp -d)
finish() {
    is_installed && dpkg --purge $packages >/dev/null 2>&1
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# report NAME COMMAND...
report() {
    name=$1
    n=$((n + 1))
    shift
    if "$@" >"$work/log" 2>&1 </dev/null; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        tail -n 60 "$work/log" | sed 's/^/# /'
        failed=1
    fi
}

. "$(dirname "$0")/use.sh"

build() {
    mkdir "$work/src"
    (cd "$source" && tar --exclude='./build*' --exclude=./.git -cf - .) |
        tar -C "$work/src" --no-same-owner -xf - || return 1
    cd "$work/src" || return 1
    # The tests are run by whoever runs this one.
    DEB_BUILD_PROFILES=nocheck DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(nproc)" \
        dpkg-buildpackage -b -us -uc
}

# Nothing new is exported without a line in the symbols file, and nothing that it has is missing.
symbols_are_listed() {
    ! grep -q 'dpkg-gensymbols: warning' "$work/build.log"
}

no_complaints() {
    lintian --allow-root --fail-on error,warning "$work"/*.changes
}

# Every file and folder of the packages, but the folders that other packages have as well.
list_files() {
    # shellcheck disable=SC2086 # a list of words
    dpkg-query -L $packages | grep '^/[^.]' | sort -u >"$work/paths"
    # lines are "one, another:amd64: /path"
    xargs dpkg-query -S <"$work/paths" | awk '
        /^diversion / { next }
        {
            at = index($0, ": /")
            count = split(substr($0, 1, at - 1), owners, ", ")
            for (i = 1; i <= count; i++)
                if (owners[i] !~ /^(lib)?memplan(0|-dev|-slurm)?(:|$)/)
                    next
            print substr($0, at + 2)
        }' >"$work/files"
    [ "$(wc -l <"$work/files")" -gt 100 ]
}

nothing_is_left() {
    ! is_installed || return 1
    while read -r path; do
        [ ! -e "$path" ] && [ ! -L "$path" ] || echo "$path is left"
    done <"$work/files" >"$work/left"
    find /usr /etc /var/lib/dpkg/info -xdev -name '*memplan*' >>"$work/left" 2>/dev/null
    cat "$work/left"
    [ ! -s "$work/left" ]
}

command_answers() {
    [ "$(command -v memplan)" = /usr/bin/memplan ] || return 1
    cd / && unset MEMPLAN_MODELS
    memplan check --no-ledger --seq 1024 llama-3.2-1b || return 1
    memplan exec --no-ledger --model llama-3.2-1b --seq 131072 -- touch "$work/started"
    [ $? = 3 ] && [ ! -e "$work/started" ]
}

pages_are_found() {
    # Small images leave manual pages and documents out of all packages.
    ! grep -qs 'path-exclude.*/man' /etc/dpkg/dpkg.cfg.d/* || return 0
    ls /usr/share/man/man1/memplan.1.gz /usr/share/man/man3/libmemplan.3.gz \
        /usr/share/man/man5/memplan-plan.5.gz
}

# By its place alone: bash-completion loads what is named like the command.
completion_is_found() {
    bash -c '. /usr/share/bash-completion/completions/memplan
        COMP_WORDS=(memplan chec) COMP_CWORD=1 COMP_LINE="memplan chec" COMP_POINT=12
        _memplan && [ "${COMPREPLY[*]}" = check ]'
}

if [ -n "${MEMPLAN_DEBS:-}" ]; then
    report 'the packages are there' cp "$MEMPLAN_DEBS"/*.deb "$MEMPLAN_DEBS"/*.changes \
        "$MEMPLAN_DEBS"/*.buildinfo "$work"
else
    report 'the packages are built' build
    cp "$work/log" "$work/build.log"
    report 'the symbols file has every symbol' symbols_are_listed
fi
[ "$failed" = 0 ] || { echo "1..$n"; exit 1; }
if command -v lintian >/dev/null 2>&1; then
    report 'lintian has no complaint' no_complaints
fi
report 'they are installed' dpkg --install "$work"/*.deb
report 'their files are known' list_files
report 'the command answers' command_answers
report 'manual pages lie where man looks' pages_are_found
report 'completion is loaded from its place' completion_is_found
report 'a launcher by pkg-config' use_pkg_config cc
report 'it launches, and refuses' launches "$work/by-pkg-config" /usr/share/memplan/models/llama-3.2-1b.json
report 'a launcher by CMake' use_cmake cc
report 'it launches, and refuses' launches "$work/cmake/launcher" /usr/share/memplan/models/llama-3.2-1b.json
report 'CMake refuses another version' cmake_refuses
report 'they are removed' dpkg --remove $packages
report 'they are purged' dpkg --purge $packages
report 'nothing is left' nothing_is_left
echo "1..$n"
exit "$failed"
