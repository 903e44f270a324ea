#!/bin/sh
# SPDX-License-Identifier: MIT
# Every hook on a Slurm of one node, with the memplan command and plans as they are. Each refusal
# once more with a memplan that says yes to everything: then it must pass, else it was refused for
# another reason. Prints TAP.
# usage: slurm.sh PROGRAM SPANK_PLUGIN LUA_MODULE SOURCE_ROOT
set -u
PROGRAM=$(realpath "$1") PLUGIN=$(realpath "$2") module=$(realpath "$3") TOP=$(realpath "$4")
MODELS=$TOP/models
here=$TOP/integrations/slurm
PATH=$PATH:/usr/sbin:/sbin
# A test that itself runs in a job takes nothing of that.
# shellcheck disable=SC2046 # a list of names
unset MEMPLAN_PLAN $(env | sed -n 's/^\(S\(LURM\|BATCH\|RUN\|ALLOC\)_[A-Z_]*\)=.*/\1/p')
LAB=$(mktemp -d)
SLURM_CONF=$LAB/slurm.conf
export LAB SLURM_CONF
n=0 failed=0
slow_seconds=300.$$ # none else sleeps for so long

finish() {
    "$here/tests/lab.sh" down >&2
    rm -rf "$LAB"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# --- cases -------------------------------------------------------------------------------------

# result NAME OK OUTPUT
result() {
    n=$((n + 1))
    if [ "$2" = yes ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        printf '%s\n' "$3" | sed 's/^/# /'
        failed=1
    fi
}

# try NAME CODE TEXT COMMAND...: exit code and a basic regular expression that the output has; "!"
# before it: that no line has.
try() {
    name=$1 want=$2 text=$3
    shift 3
    : >"$LAB/calls"
    out=$(timeout 30 "$@" 2>&1 </dev/null)
    code=$?
    right=yes
    [ "$code" = "$want" ] || right=no
    case $text in
    !*) printf '%s\n' "$out" | grep -q -- "${text#!}" && right=no ;;
    *) printf '%s\n' "$out" | grep -q -- "$text" || right=no ;;
    esac
    result "$name" $right "exit $code, expected $want and \"$text\":
$out
$(cat "$LAB/calls")"
}

# refuses NAME COMMAND...: with the verdict told; and not when memplan says yes to everything.
refuses() {
    refused=$1
    shift
    try "$refused" 1 'does not fit' "$@"
    play yes
    try "$refused: passes where memplan says yes" 0 '!does not fit' "$@"
    play real
}

# called NAME ARGUMENTS: how memplan was called the last time.
called() {
    out=$(tail -n 1 "$LAB/calls")
    case $out in
    *"$2"*) result "$1" yes '' ;;
    *) result "$1" no "found $out, expected $2" ;;
    esac
}

# What the hooks take for memplan: the command itself, or one that misbehaves.
play() {
    echo "$1" >"$LAB/mode"
}

write_double() {
    cat >"$LAB/memplan" <<END
#!/bin/sh
{ printf '[%s]' "\$@"; echo; } >>"$LAB/calls"
case \$(cat "$LAB/mode") in
real) MEMPLAN_MODELS=$MODELS XDG_STATE_HOME=$LAB/state exec "$PROGRAM" "\$@" ;;
yes) exit 0 ;;
crashes) kill -SEGV \$\$ ;;
fails) echo "memplan: out of memory" >&2; exit 1 ;;
is-slow) sleep $slow_seconds & sleep $slow_seconds ;;
is-noisy) head -c 300000 /dev/zero | tr '\\0' 'x'; exit 1 ;;
margin) echo "inside the margin"; exit 4 ;;
esac
END
    chmod +x "$LAB/memplan"
}

# run-job WORDS...: as sbatch -W, which looks every ten seconds.
write_run_job() {
    cat >"$LAB/run-job" <<'END'
#!/bin/sh
job=$(sbatch --parsable "$@") || exit
echo "job $job"
until state=$(scontrol show job "$job") &&
    echo "$state" | grep -q 'JobState=\(COMPLETED\|FAILED\)'; do
    sleep 0.1
done
exit "$(echo "$state" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p' | head -n 1)"
END
    chmod +x "$LAB/run-job"
}

write_plan() {
    sed "0,/\"sequence_length\": 4096/s//\"sequence_length\": $2/" "$MODELS/eagle3.json" >"$1"
}

# A batch script of directives, one an argument, that does nothing.
write_script() {
    script=$1
    shift
    { echo '#!/bin/sh'; printf '%s\n' "$@"; echo true; } >"$script"
}

# A plan fits the RTX PRO 6000 that it names, and an H100, up to 16384 tokens; not an L40S.
write_cases() {
    write_plan fits.json 16384
    write_plan large.json 32768
    echo '{' >broken.json
    write_script spank.sh '#SBATCH --memplan=large.json'
    write_script named.sh '#MEMPLAN plan=large.json'
    write_script plain.sh '#SBATCH --gres=gpu:h100:1'
    write_script inline.sh "$(sed 's/^/#MEMPLAN /' large.json)"
    write_script inline-fits.sh "$(sed 's/^/#MEMPLAN /' fits.json)"
    cat >train.sh <<'END'
#!/bin/sh
#SBATCH --gres=gpu:h100:2
torchrun --nproc-per-node=2 train.py --model_name_or_path meta-llama/Llama-3.1-8B \
    --per_device_train_batch_size 16 --max_seq_length 8192 --bf16 true
END
}

# --- the site's files --------------------------------------------------------------------------

site_table='gpus = { h100 = "H100 80GB HBM3", l40s = "L40S" }'

# The Lua module is the one that the build made; the other files are as they are.
write_site() {
    mkdir "$LAB/share"
    cp "$here/cli_filter.lua" "$here/job_submit.lua" "$module" "$LAB/share"
    cat >"$LAB/cli_filter.lua" <<END
memplan = { command = "$LAB/memplan", $site_table }
memplan.seconds = tonumber(io.open("$LAB/seconds"):read())
function slurm_cli_pre_submit(options, offset)
    slurm.log_info("the site's own")
    return options["comment"] == "refuse-me" and slurm.ERROR or slurm.SUCCESS
end
dofile("$LAB/share/cli_filter.lua")
END
    cat >"$LAB/job_submit.lua" <<END
memplan = { $site_table }
function slurm_job_submit(job, partitions, uid)
    memplan.command = io.open("$LAB/command"):read()
    memplan.seconds = tonumber(io.open("$LAB/seconds"):read())
    memplan.read_scripts = io.open("$LAB/reads") ~= nil
    local option = job.spank_job_env and job.spank_job_env[0] or ""
    if io.open("$LAB/demands") and job.tres_per_node and
        not option:match("^_SLURM_SPANK_OPTION_memplan_memplan=") then
        slurm.log_user("jobs with cards need --memplan=PLAN")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end
dofile("$LAB/share/job_submit.lua")
return slurm.SUCCESS
END
}

# plugin WORDS...: the line of plugstack.conf; none: no plugin.
plugin() {
    echo "$*" >"$LAB/plugstack.conf"
}

# hooks FILTER SUBMIT: which of the Lua hooks are there.
hooks() {
    sed -i '/^CliFilterPlugins/d' "$SLURM_CONF"
    [ "$1" = no ] || echo CliFilterPlugins=cli_filter/lua >>"$SLURM_CONF"
    if [ "$2" = no ]; then
        echo /bin/true >"$LAB/command"
    else
        echo "$LAB/memplan" >"$LAB/command"
    fi
}

# misbehaves NAME COMMAND...: a memplan that gives no verdict stops no job, and not for long.
misbehaves() {
    what=$1
    shift
    echo 2 >"$LAB/seconds"
    for how in crashes fails is-slow is-noisy margin; do
        play $how
        begun=$(date +%s)
        try "$what: memplan $how" 0 . "$@"
        [ $(($(date +%s) - begun)) -le 8 ] || result "$what: in time" no "$how took too long"
    done
    play real
    echo 30 >"$LAB/seconds"
}

# --- groups ------------------------------------------------------------------------------------

spank_refuses() {
    for program in sbatch srun salloc; do
        set -- true
        [ $program != sbatch ] || set -- -o /dev/null --wrap true
        refuses "spank: $program" $program --memplan=large.json --gres=gpu:2 "$@"
        try "spank: $program of what fits" 0 ' fits ' $program --memplan=fits.json --gres=gpu:1 "$@"
    done
    refuses 'spank: a line of the script' sbatch -o /dev/null spank.sh
    refuses 'spank: second of two components' sbatch -o /dev/null --hold --memplan=fits.json : \
        --hold --memplan=large.json --wrap true
    try 'spank: sbatch --help' 0 'memplan=PLAN' sbatch --help
    try 'spank: no plan' 0 '!memplan' sbatch -o /dev/null --wrap true
}

spank_passes() {
    try 'spank: no such plan' 0 'was not checked' sbatch -o /dev/null --memplan=none.json --wrap true
    try 'spank: broken plan' 0 'broken.json:' sbatch -o /dev/null --memplan=broken.json --wrap true
    try 'spank: a step takes the job'"'"'s option, from another folder' 0 . \
        "$LAB/run-job" -o step.out --memplan=fits.json --wrap 'cd / && srun true'
    result 'spank: that was checked once' \
        "$([ "$(grep -c . "$LAB/calls")" = 1 ] && echo yes || echo no)" "$(cat "$LAB/calls" step.out)"
    plugin "required $PLUGIN command=$LAB/memplan"
    misbehaves spank sbatch -o /dev/null --memplan=large.json --wrap true
    plugin "required $PLUGIN command=$LAB/none"
    try 'spank: no memplan' 0 'cannot be run' sbatch -o /dev/null --memplan=large.json --wrap true
    plugin "optional $PLUGIN command=$LAB/memplan timeout_ms=30000"
    try 'spank: optional advises' 0 'does not fit' sbatch -o /dev/null --memplan=large.json --wrap true
    plugin "required $PLUGIN command=$LAB/memplan timeout_ms=30000 gpu=L40S"
    refuses 'spank: the card of plugstack.conf' sbatch -o /dev/null --memplan=fits.json --wrap true
}

filter_refuses() {
    refuses 'cli_filter: a script that names its plan' sbatch -o /dev/null named.sh
    refuses 'cli_filter: a script that holds its plan' sbatch -o /dev/null inline.sh
    refuses 'cli_filter: srun' srun --comment=memplan=large.json true
    refuses 'cli_filter: salloc' salloc --comment=memplan=large.json true
    refuses 'cli_filter: the environment' env MEMPLAN_PLAN=large.json sbatch -o /dev/null --wrap true
    refuses 'cli_filter: second of two components' sbatch -o /dev/null --hold \
        --comment=memplan=fits.json : --hold --comment=memplan=large.json --wrap true
    refuses 'cli_filter: what the script launches' sbatch -o /dev/null train.sh
    refuses 'cli_filter: what srun launches' srun --gres=gpu:h100:1 true torchrun train.py \
        --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 64 \
        --max_seq_length 8192 --bf16 true
    refuses 'cli_filter: the card of the request' sbatch -o /dev/null -p ghosts --hold \
        --comment=memplan=fits.json --gres=gpu:l40s:4 --wrap true
    plugin "required $PLUGIN check=no"
    refuses 'cli_filter: the option of the plugin' sbatch -o /dev/null -p ghosts --hold \
        --memplan=fits.json --gres=gpu:l40s:4 --wrap true
    plugin
}

# request NAME ARGUMENTS OPTION...: how memplan is called for a request.
request() {
    name=$1 arguments=$2
    shift 2
    timeout 30 sbatch -o /dev/null -p ghosts --hold --comment=memplan=fits.json "$@" --wrap true \
        >"$LAB/out" 2>&1
    called "request: $name" "[check]$arguments[--][fits.json]"
}

filter_requests() {
    h100='[--gpu=H100 80GB HBM3]' two='[--set=parallelism.gpus_per_node='
    play yes
    request 'no card' '' -n 2
    request '--gres' "$h100[--gpus=2]" --gres=gpu:h100:2
    request '--gres without a count, and of other things' "$h100[--gpus=1]" --gres=shard:3,gpu:h100
    request '--gres without a name' '[--gpus=4]' --gres=gpu:4
    request '--gres on nodes' "$h100[--gpus=16]${two}8]" --gres=gpu:h100:8 --nodes=2
    request '--gres on a range of nodes' "$h100" --gres=gpu:h100:8 --nodes=1-4
    request '--gres on as many nodes as tasks need' "$h100[--gpus=8]${two}4]" --gres=gpu:h100:4 -n 8 \
        --ntasks-per-node=4
    request '--gres, nodes left open' "$h100" --gres=gpu:h100:4 -n 8
    request '--gpus' '[--gpu=a100][--gpus=8]' --gpus=a100:8 -N 2
    request '--gpus of two kinds' '[--gpus=4]' --gpus=a100:2,h100:2
    request '--gpus-per-node' "$h100[--gpus=8]${two}4]" --gpus-per-node=h100:4 -N 2
    request '--gpus-per-task' "$h100[--gpus=4]" --gpus-per-task=h100:1 -n 4
    request '--gpus-per-socket' "$h100[--gpus=4]" --gpus-per-socket=h100:2 --sockets-per-node=2 -N 1
    request '--constraint' '[--gpu=L40S][--gpus=2]' --gres=gpu:2 -C l40s
    request 'a name in capitals' "$h100[--gpus=2]" --gres=gpu:H100:2
    request 'a name with a quote' "[--gpu=a'b][--gpus=2]" "--gres=gpu:a'b:2"
    play real
}

filter_passes() {
    try 'cli_filter: what fits' 0 ' fits ' sbatch -o /dev/null --comment=memplan=fits.json \
        --gres=gpu:h100:2 --wrap true
    try 'cli_filter: a name of several cards' 0 'names several cards' sbatch -o /dev/null \
        --comment=memplan=large.json --gres=gpu:a100:1 --wrap true
    try 'cli_filter: a name near one' 0 'did you mean NVIDIA H100' sbatch -o /dev/null -p ghosts \
        --hold --comment=memplan=large.json --gres=gpu:h1000:1 --wrap true
    try 'cli_filter: a script that trains nothing' 0 '!memplan' sbatch -o /dev/null plain.sh
    try 'cli_filter: the check declined' 0 '!does not fit' sbatch -o /dev/null \
        --comment=memplan=none train.sh
    try 'cli_filter: a plan that is no file' 0 'was not checked' sbatch -o /dev/null \
        "--comment=memplan=x';touch\${IFS}owned;'" --wrap true
    result 'cli_filter: a name is no command' "$([ -e owned ] && echo no || echo yes)" ''
    try 'cli_filter: a step of a job' 0 . "$LAB/run-job" -o step.out --comment=memplan=fits.json \
        --wrap 'srun --comment=memplan=large.json true'
    try 'cli_filter: the site refuses first' 1 '!does not fit' sbatch --comment=refuse-me named.sh
    try 'cli_filter: the site'"'"'s own is called' 0 "the site's own" sbatch -o /dev/null plain.sh
    misbehaves cli_filter sbatch -o /dev/null named.sh
    mv "$LAB/memplan" "$LAB/gone"
    try 'cli_filter: no memplan' 0 'cannot be run' sbatch -o /dev/null named.sh
    mv "$LAB/gone" "$LAB/memplan"
}

submit_refuses() {
    refuses 'job_submit: a script that holds its plan' sbatch -o /dev/null inline.sh
    refuses 'job_submit: by standard input' sh -c 'sbatch -o /dev/null <inline.sh'
    sed '/^CliFilter/d' "$SLURM_CONF" >own.conf
    refuses 'job_submit: a slurm.conf of the user' env "SLURM_CONF=$PWD/own.conf" \
        sbatch -o /dev/null inline.sh
    refuses 'job_submit: the card of the request' sbatch -o /dev/null -p ghosts --hold \
        --gres=gpu:l40s:4 inline-fits.sh
    touch "$LAB/reads"
    refuses 'job_submit: what the script launches' sbatch -o /dev/null train.sh
    rm "$LAB/reads"
}

# What a user may try against a hook that runs as Slurm's own user.
submit_withstands() {
    mkfifo fifo
    write_script opens.sh '#MEMPLAN plan=fifo'
    try 'job_submit: opens no plan' 0 '!memplan' sbatch -o /dev/null opens.sh
    mkdir -p secret
    echo '{"top secret' >secret/config.json
    write_script names.sh "#MEMPLAN {\"model_name_or_path\": \"$PWD/secret\", " \
        '#MEMPLAN "per_device_train_batch_size": 1, "max_length": 64}'
    try 'job_submit: opens no model' 0 '!top secret' sbatch -o /dev/null names.sh
    called 'job_submit: asks for that' '[--no-ledger][--no-files][--][-]'
}

submit_passes() {
    try 'job_submit: what fits' 0 ' fits ' sbatch -o /dev/null --gres=gpu:h100:2 inline-fits.sh
    called 'job_submit: cards' '[--gpu=H100 80GB HBM3][--gpus=2]['
    try 'job_submit: nodes' 0 ' fits ' sbatch -o /dev/null -p ghosts --hold --gpus-per-node=h100:2 -N 2 \
        inline-fits.sh
    called 'job_submit: cards on nodes' '[--gpus=4][--set=parallelism.gpus_per_node=2]['
    try 'job_submit: tasks' 0 ' fits ' sbatch -o /dev/null -p ghosts --hold --gpus-per-task=h100:1 -n 4 \
        inline-fits.sh
    called 'job_submit: cards of tasks' '[--gpu=H100 80GB HBM3][--gpus=4]['
    try 'job_submit: total' 0 ' fits ' sbatch -o /dev/null -p ghosts --hold --gpus=h100:8 inline-fits.sh
    called 'job_submit: cards in total' '[--gpu=H100 80GB HBM3][--gpus=8]['
    try 'job_submit: a name of several cards' 0 'names several cards' sbatch -o /dev/null \
        --gres=gpu:a100:1 inline.sh
    try 'job_submit: a script that trains nothing' 0 '!memplan' sbatch -o /dev/null plain.sh
    misbehaves job_submit sbatch -o /dev/null inline.sh
    echo "$LAB/none" >"$LAB/command"
    try 'job_submit: no memplan' 0 'cannot be run' sbatch -o /dev/null inline.sh
    echo "$LAB/memplan" >"$LAB/command"
}

# As README.md has it: a site that demands the plugin's option.
submit_demands() {
    touch "$LAB/demands"
    plugin "required $PLUGIN command=$LAB/memplan timeout_ms=30000"
    try 'job_submit: demands the option' 1 'need --memplan' sbatch -o /dev/null plain.sh
    try 'job_submit: takes the option' 0 ' fits ' sbatch -o /dev/null --memplan=fits.json plain.sh
    plugin
    rm "$LAB/demands"
}

# batch NAME CODE TEXT PLAN PROGRAM
batch() {
    try "batch: $1" "$2" . env "MEMPLAN_PLAN=$4" "MEMPLAN=$5" 'TRAIN=echo trained' \
        "$LAB/run-job" -o batch.out batch.sh
    right=no
    grep -q -- "$3" batch.out && right=yes
    result "batch: $1, its output" $right "$(cat batch.out)"
}

batch_script() {
    sed 's/KILL 2 /KILL 30 /' "$here/batch.sh" >batch.sh # a busy machine takes longer
    batch 'refuses' 3 'does not fit' large.json "$LAB/memplan"
    result 'batch: does not train then' "$(grep -q trained batch.out && echo no || echo yes)" ''
    called 'batch: cards' '[check][--gpu=H100 80GB HBM3][--gpus=2][--][large.json]'
    batch 'trains what fits' 0 trained fits.json "$LAB/memplan"
    batch 'trains without memplan' 0 trained large.json "$LAB/none"
    play yes
    batch 'passes where memplan says yes' 0 trained large.json "$LAB/memplan"
    play real
}

# --- run ---------------------------------------------------------------------------------------

mkdir "$LAB/work"
cd "$LAB/work" || exit 1
echo 30 >"$LAB/seconds"
write_double
write_run_job
write_cases
write_site
play real
hooks no no 2>/dev/null
EXTRA_CONF=JobSubmitPlugins=lua "$here/tests/lab.sh" up >"$LAB/up" 2>&1
code=$?
cat "$LAB/up" >&2
[ $code != 77 ] || { echo "1..0 # SKIP Slurm is not installed"; exit 0; }
[ $code = 0 ] || { echo "Bail out! Slurm did not start"; exit 1; }

plugin "required $PLUGIN command=$LAB/memplan timeout_ms=30000"
spank_refuses
spank_passes
plugin
hooks yes no
filter_refuses
filter_requests
filter_passes
hooks no yes
submit_refuses
submit_withstands
submit_passes
submit_demands
hooks no no
batch_script

scancel -u "$(id -u)" --state=PENDING
left=$(squeue -h)
[ -z "$left" ] || { sleep 2 && left=$(squeue -h); }
try 'the node is as it was' 0 '^idle$' sinfo -h -p main -o %t
[ -z "$left" ] || result 'no job is left' no "$left"
left=$(pgrep -u "$(id -u)" -fx "sleep $slow_seconds")
[ -z "$left" ] || result 'a slow memplan is ended' no "$left"
echo "1..$n"
exit $failed
