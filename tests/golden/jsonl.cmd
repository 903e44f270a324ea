# Broken lines keep their place, their line number and their id; the exit code is 2.
{
    tr -d '\n' <"$GOLDEN/small.json"
    echo
    echo '{"model": {"model_type": '
    echo
    echo '{"id": "b", "model": {"model_type": "llama", "hidden_size": -4}}'
    echo '{"id": 7, "model": {"model_type": "mamba"}}'
    tr -d '\n' <"$GOLDEN/small.json"
    echo
} | memplan --jsonl --seq 512 --no-suggestions >lines
code=$?
sed 's/,"reason".*//' lines
exit $code
