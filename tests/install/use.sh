# SPDX-License-Identifier: MIT
# Read by the tests of an installation: the launcher, built as a user's program is, and what it does.
# Needs work (a scratch folder), source (of the project), and report NAME COMMAND...

# use_pkg_config CC: builds "$work/by-pkg-config".
use_pkg_config() {
    # shellcheck disable=SC2046 # flags are words
    "$1" -std=c11 -Wall -Wextra -Werror -o "$work/by-pkg-config" "$source/examples/launcher.c" \
        $(pkg-config --cflags --libs memplan)
}

# use_cmake CC [OPTION...]: builds "$work/cmake/launcher".
use_cmake() {
    compiler=$1
    shift
    mkdir -p "$work/cmake"
    cat >"$work/cmake/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(launcher C)
find_package(memplan 0.1 REQUIRED)
add_executable(launcher $source/examples/launcher.c)
target_link_libraries(launcher PRIVATE memplan::memplan)
EOF
    cmake -S "$work/cmake" -B "$work/cmake" -DCMAKE_C_COMPILER="$compiler" "$@" &&
        cmake --build "$work/cmake"
}

# A version that is too new is refused.
cmake_refuses() {
    mkdir -p "$work/refused"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(refused C)' \
        'find_package(memplan 0.9 REQUIRED)' >"$work/refused/CMakeLists.txt"
    ! cmake -S "$work/refused" -B "$work/refused" "$@" || return 1
    rm -rf "$work/refused/CMakeCache.txt"
    sed -i 's/memplan 0.9/memplan 0.1/' "$work/refused/CMakeLists.txt"
    ! cmake -S "$work/refused" -B "$work/refused" "$@" 2>&1 | grep -q 'Could not find'
}

# launches PROGRAM PLAN: runs what fits, refuses what does not.
launches() {
    "$1" "$2" training.sequence_length=1024 -- sh -c 'exit 41'
    [ $? = 41 ] || return 1
    "$1" "$2" training.sequence_length=131072 -- touch "$work/started"
    [ $? = 3 ] && [ ! -e "$work/started" ]
}

# alone COMPILER STANDARD LANGUAGE FLAGS...: the header, and nothing else.
alone() {
    compiler=$1 standard=$2 language=$3
    shift 3
    printf '#include <memplan.h>\n' | "$compiler" -std="$standard" -pedantic-errors -Wall -Wextra \
        -Werror -x "$language" -fsyntax-only "$@" -
}
