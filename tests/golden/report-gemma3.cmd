cat >gemma3.json <<'END'
{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
 "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 8,
                 "num_hidden_layers": 34, "num_key_value_heads": 4, "sliding_window": 1024},
 "vision_config": {"hidden_size": 1152}}
END
memplan --model gemma3.json --seq 4096 --gpu "A100 80GB"
