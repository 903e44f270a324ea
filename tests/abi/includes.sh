#!/bin/sh
# SPDX-License-Identifier: MIT
# Who includes whom: each folder of lib/ and the folders it may include from, besides itself and
# base. A stage that reaches for a later one is found here. usage: includes.sh SOURCE_ROOT
set -u
export LC_ALL=C
cd "$1" || exit 1

rules='
base:
table:
timeline: table
spec: table
ingest: table timeline spec replay
import: table spec ingest
tape: table timeline spec
op: table timeline tape spec
step: table timeline tape op part arch optim parallel spec
compile: table timeline tape
part: table timeline tape op step spec compile
arch: table timeline tape op step part spec compile parallel
optim: table timeline tape op step spec
parallel: table timeline tape op step optim spec
replay: table timeline
estimate: table timeline spec step replay
verdict: table timeline spec replay estimate
calib: table timeline spec replay estimate verdict
emit: table timeline spec replay estimate verdict calib
log:
pack:
'

# shellcheck disable=SC2046 # our own file names hold no spaces
awk -v rules="$rules" '
    BEGIN {
        n = split(rules, lines, "\n")
        for (i = 1; i <= n; i++)
            if (split(lines[i], part, ":") == 2)
                allowed[part[1]] = " " part[1] " base " part[2] " "
    }
    function complain(what) { print FILENAME ": " what; failed = 1 }
    FNR == 1 {
        files++
        split(FILENAME, path, "/")
        in_lib = path[1] == "lib" && path[3] != ""
        if (in_lib && !(path[2] in allowed))
            complain("no rule for lib/" path[2])
    }
    /^#include <jansson.h>/ && in_lib && path[2] != "ingest" && path[2] != "import" &&
        path[2] != "emit" {
        complain("jansson.h belongs in ingest, import and emit")
    }
    /^#include <pcre2.h>/ && in_lib && path[2] != "log" {
        complain("pcre2.h belongs in log")
    }
    /^#include <cminpack.h>/ && in_lib && path[2] != "calib" {
        complain("cminpack.h belongs in calib")
    }
    /^#include <yaml.h>/ && in_lib && path[2] != "import" {
        complain("yaml.h belongs in import")
    }
    /^#include "[a-z_]+\// {
        split($2, used, /["\/]/)
        if (in_lib && index(allowed[path[2]], " " used[2] " ") == 0)
            complain("includes " used[2] "/, which lib/" path[2] " may not")
        if (path[1] != "lib" && !(path[1] == "cli" && used[2] == "probe"))
            complain("is a guest of memplan.h and may include nothing else of the library")
    }
    END {
        if (files == 0) { print "no file found"; failed = 1 }
        exit failed
    }
' $(find lib cli examples -name '*.[ch]')
