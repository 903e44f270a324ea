#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples do what they say, on a plan that fits and on one that does not. Prints TAP.
# usage: test-examples.sh LAUNCHER EXAMPLES MODELS [MEMPLAN]
set -u
launcher=$1 examples=$2 MEMPLAN_MODELS=$3 memplan=${4:-}
export MEMPLAN_MODELS LC_ALL=C
plan=$MEMPLAN_MODELS/llama-3.2-1b.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state"
n=0 failed=0

# expect NAME CODE TEXT COMMAND...: its exit code, and a text in what it prints.
expect() {
    name=$1 code=$2 text=$3
    shift 3
    n=$((n + 1))
    "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    if [ "$got" = "$code" ] && grep -q -F -- "$text" "$work/out"; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name: exit code $got, expected $code and \"$text\""
        sed 's/^/# /' "$work/out"
        failed=1
    fi
}

# Becomes the command, whose words and exit code are its own, or does not start it at all.
length=training.sequence_length
run="sh -c"
expect 'launcher becomes what fits' 41 'ran a  b' \
    "$launcher" "$plan" $length=1024 $length=2048 -- $run 'echo "ran $0"; exit 41' 'a  b'
expect 'launcher refuses what does not' 3 'launcher: refused: It does not fit' \
    "$launcher" "$plan" $length=131072 -- touch "$work/started"
expect 'launcher cannot tell without a card' 5 'Cannot tell' \
    "$launcher" "$plan" device=null -- touch "$work/started"
expect 'launcher names the field at fault' 2 "$length" \
    "$launcher" "$plan" $length=-5 -- touch "$work/started"
expect 'launcher without a file' 2 'cannot be read' \
    "$launcher" "$work/none.json" -- touch "$work/started"
expect 'launcher without a command' 2 'usage: ' "$launcher" "$plan" --
expect 'launcher without arguments' 2 'usage: ' "$launcher"
expect 'what was refused was not started' 0 'nothing' \
    sh -c 'test -e "$1" || echo nothing' sh "$work/started"
expect 'a command that does not exist' 127 'No such file' "$launcher" "$plan" $length=1024 -- "$work/none"

if [ -n "$memplan" ]; then
    mkdir "$work/bin"
    ln -s "$(realpath "$memplan")" "$work/bin/memplan"
    printf '#!/bin/sh\necho "torchrun $*"\nexit 9\n' >"$work/bin/torchrun"
    chmod +x "$work/bin/torchrun"
    PATH=$work/bin:$PATH
    export PATH
    expect 'job runs what fits, exit code passed on' 9 '--max-seq-len 2048' \
        env PLAN=llama-3.2-1b SEQ=2048 sh "$examples/job.sbatch"
    expect 'job refuses what does not' 3 'memplan: refused: ' \
        env PLAN=llama-3.2-1b SEQ=131072 sh "$examples/job.sbatch"
    expect 'job with a plan that is missing' 2 'no preset of that name' \
        env PLAN=nonesuch sh "$examples/job.sbatch"
fi
echo "1..$n"
exit "$failed"
