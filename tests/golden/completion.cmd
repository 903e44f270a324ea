# What the shells' scripts ask: the last word is the one that is being written.
words() {
    echo "== memplan $*"
    memplan completion words "$@"
}
words che
words exec --f
words --risk 0.01 --no
words check llama-3.1-40
words estimate --assume mist
words --gpu=h200
words list gpus 'RTX PRO 6000 Blackwell S'
words list ''
words max --model llama-3-8b training.mic
words max --model llama-3-8b micro
words min --model llama-3-8b --from ''
words sweep --model llama-3-8b --tsv world_s
words sweep training.parameter_dtype=
words --set parallelism.strat
words --set=training.activation_checkpointing=s
words --set training.compile
words record --metric ''
words pack --rule to
words calibrate --output p
words probe ''
words exec --model llama-3-8b -- tr
words exec torchrun --nproc
words help fi
words --help=che
words nonesuch ''
# Every option that --help has is offered, and a script is what it is installed as.
for command in $(memplan completion words '' | cut -f 1); do
    memplan $command --help | sed -n 's/^  \(-o, \)*\(--[a-z-]*\).*/\2/p' | sort >expected
    memplan completion words $command -- | cut -f 1 | sort | diff expected - || echo "$command differs"
    memplan help $command >/dev/null || echo "$command has no help"
done
cd "$GOLDEN/../../cli/completion" || exit 1
memplan completion bash | cmp - memplan.bash
memplan completion zsh | cmp - _memplan
memplan completion fish | cmp - memplan.fish
memplan completion tcsh
memplan completion
