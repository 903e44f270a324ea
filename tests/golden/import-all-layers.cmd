# PEFT writes "all-linear" out as the full name of each layer; what is in every layer is one name.
names() { # FIRST LAST MODULE...: their names in the layers from FIRST to LAST
    first=$1 last=$2
    shift 2
    for module; do
        layer=$first
        while [ "$layer" -le "$last" ]; do
            printf '"model.layers.%d.%s", ' "$layer" "$module"
            layer=$((layer + 1))
        done
    done
}
plan() {
    printf '{"peft_type": "LORA", "r": 8, "base_model_name_or_path": "llama-3.2-1b", "target_modules": [%s]}' \
        "${1%, }" >adapter_config.json
    memplan import adapter_config.json | sed -n '/"target_modules"/,/\]/p'
}
plan "$(names 0 15 self_attn.q_proj self_attn.o_proj mlp.up_proj)"
echo "== one layer short, the upper half, one name in two places"
plan "$(names 0 15 self_attn.q_proj self_attn.o_proj) $(names 0 14 mlp.up_proj)"
plan "$(names 8 15 self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.up_proj)"
plan "$(names 0 15 self_attn.q_proj other.q_proj mlp.up_proj)"
