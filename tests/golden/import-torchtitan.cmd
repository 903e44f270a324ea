cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan torchtitan-1.toml
plan torchtitan-2.toml
plan torchtitan-3.toml
plan torchtitan-4.toml
plan torchtitan-5.toml
plan torchtitan-6.toml
plan torchtitan-7.toml
plan torchtitan-8.toml
plan torchtitan-9.toml

cd "$OLDPWD" || exit 1
echo "== every key that a field of a plan has"
cat >all.toml <<'END'
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 1
global_batch_size = 64
seq_len = 4096
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
fsdp_reshard_after_forward = "always"
[optimizer]
name = "Adam"
implementation = "foreach"
weight_decay = 0.0
[activation_checkpoint]
selective_ac_option = "3"
early_stop = true
[quantize.linear.float8]
recipe_name = "rowwise"
filter_fqns = ["output", "attention.wk", "auto_filter_small_kn"]
[checkpoint]
enable = true
async_mode = "async"
initial_load_path = "x"
[validation]
enable = true
[training.dataloader]
num_workers = 2
END
memplan import all.toml 2>&1
echo "== replicas alone are DDP"
printf '[parallelism]\ndata_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1\n' >ddp.toml
memplan import ddp.toml 2>&1
cp "$GOLDEN/import/torchtitan-1.toml" .
memplan --model torchtitan-1.toml --gpus 8 --gpu "H100 80GB HBM3" --no-suggestions |
    sed -n 1,12p

echo "== broken, truncated and hostile"
refuse() {
    memplan import "$1" 2>&1
    echo "$1: exit $?"
}
printf '[model]\nname = "llama3"\nflavor = "8B\n' >cut.toml
printf '[model]\nname = "llama3"\nname = "qwen3"\n' >twice.toml
printf '[training]\nseq_len = 99999999999999999999\n' >huge.toml
printf '[training]\nseq_len = "long"\n' >words.toml
printf '[training]\nseq_len = 0\n' >zero.toml
printf '[training]\nseq_len = 2048\nfrobnicate = 3\n' >unknown-key.toml
printf '[training]\nname = "\\u0000"\n' >nul.toml
printf '[training]\nname = "\377"\n' >not-utf8.toml
printf '[parallelism]\npipeline_parallel_degree = 4\n' >pipeline.toml
printf '[parallelism]\ndata_parallel_shard_degree = -7\n' >shards.toml
printf '[activation_checkpoint]\nmode = "memory_budget"\n' >budget.toml
printf '[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "every"\n' >option.toml
printf '[training]\nglobal_batch_size = 7\n[parallelism]\ndata_parallel_shard_degree = 2\n' >batch.toml
printf '[training]\nglobal_batch_size = 7\n' >ranks.toml
printf '[model]\nconverters = ["mx"]\n' >mx.toml
printf '[model]\nname = "deepseek_v3"\nflavor = "16B"\n' >moe.toml
printf '[tool.poetry]\nname = "x"\n' >other.toml
{ printf '[model]\na = '; i=0; while [ $i -lt 300 ]; do printf '['; i=$((i + 1)); done; } >deep.toml
{ printf '[a'; i=0; while [ $i -lt 3000 ]; do printf '.a'; i=$((i + 1)); done; echo ']'; } >dots.toml
{ printf '[model]\n'; i=0; while [ $i -lt 30 ]; do printf 'a.'; i=$((i + 1)); done
  printf 'b = { '; i=0; while [ $i -lt 31 ]; do printf 'a.'; i=$((i + 1)); done
  printf 'c = { '; i=0; while [ $i -lt 31 ]; do printf 'a.'; i=$((i + 1)); done
  echo 'd = 1 } }'; } >levels.toml
for file in cut twice huge words zero unknown-key nul not-utf8 pipeline shards budget option batch ranks mx \
    moe other deep dots levels; do
    refuse $file.toml
done
