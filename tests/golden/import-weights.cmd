# Folders as Hugging Face's repositories are; the data of the weights are holes, and never read.
# folder FACTS OPTIONS...: a folder of that name, what its import says, and what of the plan that sets
folder() {
    name=$1
    shift
    python3 "$GOLDEN/weights/make.py" "$GOLDEN/weights/$name.txt" "$name" "$@" || return
    show "$name"
}
show() {
    echo "== $*"
    memplan import "$@" -o plan.json 2>&1
    echo "exit $?"
    [ ! -e plan.json ] || grep -E '"(dtype|r|type|double|use_dora|strategy)"' plan.json
    rm -f plan.json
}
models=$MEMPLAN_MODELS

echo "# what config.json describes"
folder llama-3.1-8b --shards 4 --preset "$models/llama-3.1-8b.json" --drop dtype --drop torch_dtype
folder mistral-7b-v0.1 --shards 2 --preset "$models/mistral-7b-v0.1.json" --set 'dtype="float32"'
folder qwen2.5-0.5b --preset "$models/qwen2.5-0.5b.json"
folder gemma-2-2b --shards 3 --preset "$models/gemma-2-2b.json" --drop dtype --drop torch_dtype
folder gpt2 --preset "$models/gpt2.json"
mkdir mistral-small-3.1-24b
cp "$GOLDEN/import/model-1.json" mistral-small-3.1-24b/config.json
folder mistral-small-3.1-24b --shards 10
memplan --model llama-3.1-8b --seq 4096 --gpu "H200" --no-suggestions | head -2
memplan check --seq 4096 --gpu "H200" llama-3.1-8b

echo "# what it does not describe"
folder qwen2.5-0.5b --preset "$models/qwen2.5-0.5b.json" --set tie_word_embeddings=false
folder llama-3.1-8b --shards 4 --preset "$models/llama-3.1-8b.json" --set tie_word_embeddings=true
folder llama-3.1-8b --shards 4 --preset "$models/llama-3-70b.json" \
    --set 'dtype="bfloat16"'
rm llama-3.1-8b/model-00002-of-00004.safetensors
show llama-3.1-8b
rm llama-3.1-8b/*.safetensors
show llama-3.1-8b
cp "$models/llama-3.1-8b.json" preset.json
python3 -c 'import json; json.dump(json.load(open("preset.json"))["model"], open("llama-3.1-8b/config.json", "w"))'
show llama-3.1-8b

echo "# quantised"
folder llama-3-8b-bnb-4bit --preset "$models/llama-3-8b.json"
folder llama-3-8b-bnb-4bit --preset "$models/llama-3-8b.json" \
    --set 'quantization_config={"quant_method": "bitsandbytes", "bnb_4bit_quant_type": "fp4"}'
folder mistral-7b-gptq --preset "$models/mistral-7b-v0.1.json"
folder qwen3-8b-fp8 --shards 2 --preset "$models/qwen3-8b.json"
folder gpt-oss-20b --shards 3 --preset "$models/gpt-oss-20b.json"
sed 's/F8_E4M3/F16/; /scale_inv/d' "$GOLDEN/weights/qwen3-8b-fp8.txt" >plain.txt
sed 's/g_idx/other/' "$GOLDEN/weights/mistral-7b-gptq.txt" >awq.txt
python3 "$GOLDEN/weights/make.py" awq.txt awq --preset "$models/mistral-7b-v0.1.json"
show awq
python3 "$GOLDEN/weights/make.py" plain.txt mixed --preset "$models/qwen3-8b.json"
show mixed

echo "# adapters"
folder adapter-llama-3.1-8b --file adapter_model.safetensors
cp "$GOLDEN/import/adapter-1.json" adapter-llama-3.1-8b/adapter_config.json
show adapter-llama-3.1-8b llama-3.1-8b/config.json
sed 's/^F32/BF16/; s/^\(BF16 \)16,4096 \(.*v_proj\)/\18,4096 \2/; s/^\(BF16 1024,\)16/\18/' \
    "$GOLDEN/weights/adapter-llama-3.1-8b.txt" >ranks.txt
python3 "$GOLDEN/weights/make.py" ranks.txt ranks --file adapter_model.safetensors
show ranks/adapter_model.safetensors llama-3.1-8b/config.json

echo "# folders and names"
mkdir empty
show empty
show nowhere/model.safetensors
memplan --model llama-3-8b-bnb-4bit/model.safetensors 2>&1
memplan --model llama-3-8b-bnb-4bit/model.safetensors.index.json 2>&1
mkfifo pipe.safetensors
show pipe.safetensors
printf '{"weight_map": {"a": "../../secret.safetensors"}}' >up.safetensors.index.json
printf '{"weight_map": {"a": 3}}' >number.safetensors.index.json
printf '{"weight_map": [1]}' >list.safetensors.index.json
printf '{"weight_map": {"a": "m.safetensors"}, "metadata": {"total_size": -1}}' >size.safetensors.index.json
printf '{"weight_map": {"a": "m.safetensors"' >cut.safetensors.index.json
for index in up number list size cut; do
    show $index.safetensors.index.json
done
