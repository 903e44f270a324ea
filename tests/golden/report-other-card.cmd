# --gpu drops the sizes that the plan gives for its own card.
cp "$GOLDEN/small.json" .
memplan --model small.json --gpu 'H100 80GB HBM3' --no-suggestions | grep -A 9 'The card'
