# A failure that the model did not foresee makes every verdict of that plan more cautious; one that
# was followed by a longer run that ran does not.
cat >plan.json <<'END'
{"model": {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256},
 "training": {"sequence_length": 4096, "parameter_dtype": "bfloat16", "attention": "sdpa",
              "activation_checkpointing": "none", "optimizer": {"name": "adamw"}},
 "software": {"pytorch": "2.14.1", "transformers": "5.24.0"}, "device": {"gpu": "RTX 4090"},
 "observations": [{"sequence_length": 4096, "outcome": "oom"}]}
END
for tokens in 4096 3072 2560; do
    memplan --model plan.json --seq $tokens --no-suggestions | sed -n '4,7p;/N019/,/^$/p'
done
sed 's/}]}/}, {"sequence_length": 4608, "outcome": "ran"}]}/' plan.json >both.json
memplan --model both.json --seq 4096 --no-suggestions | sed -n '4,7p;/N019/,/^$/p'
