memplan estimat --model "$GOLDEN/small.json"
memplan frobnicate
cp "$GOLDEN/small.json" .
memplan small.json
