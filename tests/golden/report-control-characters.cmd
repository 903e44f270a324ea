# Text of a plan reaches the terminal without its control characters.
cp "$GOLDEN/small.json" .
memplan --model small.json --set 'name="red \u001b[31m bell \u0007 c1 \u009b2J"' | head -n 1
