# A config.json of a model, as published, and a card by a part of its name.
cp "$GOLDEN/config.json" .
memplan --model config.json --seq 4096 --gpu 4090 --no-suggestions
