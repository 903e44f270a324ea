printf '{\n  "model": {\n    "model_type": "llama",\n    "hidden_size": 40 96\n  }\n}\n' >broken.json
memplan --model broken.json
