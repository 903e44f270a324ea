#!/bin/sh
# SPDX-License-Identifier: MIT
# The probe of this machine as it is. Prints TAP. usage: here.sh PROGRAM
set -u
answer=$(LC_ALL=C "$1" probe 2>&1)
code=$?
echo 1..2
if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || [ -e /sys/class/kfd ]; then
    # What a real driver says is not ours to foresee, only that it is an answer.
    case $code in
    0 | 5) echo "ok 1 - a machine with a driver has an answer" ;;
    *) echo "not ok 1 - exit code $code: $answer" ;;
    esac
elif [ "$code" = 5 ] && [ "$(printf '%s\n' "$answer" | wc -l)" = 1 ] &&
    [ "${answer#memplan: no GPU found: }" != "$answer" ]; then
    echo "ok 1 - a machine without a driver: one line, exit code 5"
else
    echo "not ok 1 - exit code $code: $answer"
    code=1
fi
bad=0
[ "$code" = 0 ] || [ "$code" = 5 ] || bad=1
# A build without the CUDA runtime says so; one with it has an answer.
LC_ALL=C "$1" probe --context >/dev/null 2>&1
code=$?
case $code in
0 | 2 | 5) echo "ok 2 - contexts are made, or refused" ;;
*) echo "not ok 2 - --context: exit code $code"; bad=1 ;;
esac
exit "$bad"
