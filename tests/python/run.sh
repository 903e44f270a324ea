#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of the Python package against a build. Prints TAP.
# usage: run.sh SOURCE_ROOT LIBRARY MEMPLAN
set -u
MEMPLAN_LIBRARY=$(realpath "$2") MEMPLAN_BIN=$(realpath "$3") MEMPLAN_MODELS=$1/models
export MEMPLAN_LIBRARY MEMPLAN_BIN MEMPLAN_MODELS PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8

for python in "${MEMPLAN_TEST_PYTHON:-}" python3 /usr/bin/python3; do
    [ -n "$python" ] && "$python" -c 'import pytest' >/dev/null 2>&1 || continue
    cd "$1/bindings/python" || exit 1
    PYTHONPATH=$PWD/tests exec "$python" -m pytest -p no:terminal -p no:cacheprovider -p tap tests
done
echo '1..0 # SKIP pytest is not installed'
