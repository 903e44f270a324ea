# With and without the ending, in ./models without the variable, and a file before a preset.
memplan check llama-3.2-1b llama-3.2-1b.json
mkdir models
cp "$GOLDEN/small.json" models/mine.json
unset MEMPLAN_MODELS
memplan check mine
