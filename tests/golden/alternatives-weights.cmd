# The weights of the alternatives are shares of one whole, whatever the readings leave.
cp "$GOLDEN/small.json" .
memplan --model small.json --no-suggestions --json \
    --set 'training.attention={"any_of": ["sdpa", "eager"]}' \
    --set 'training.parameter_dtype={"any_of": ["bfloat16", "float32"]}' \
    --set 'observations=[{"sequence_length": 1024, "bytes": "1.71 GB", "metric": "allocated"}]' |
    sed 's/.*"alternatives": *\[\(.*\)\], *"readings": *\[.*/\1/' |
    grep -o '"weight": *[0-9.e+-]*' | awk -F: '{ sum += $2 } END { printf "%d: %.4f\n", NR, sum }'
