# What is left open, readings that tell some apart, and what decides.
cp "$GOLDEN/small.json" .
memplan --model small.json --no-suggestions \
    --set 'training.attention={"any_of": ["sdpa", "eager"], "why": "not written down"}' \
    --set 'training.parameter_dtype={"any_of": ["bfloat16", "float32"]}' \
    --set 'observations=[{"sequence_length": 1024, "bytes": "1.71 GB", "metric": "allocated"},
                         {"sequence_length": 2048, "outcome": "ran"}]'
