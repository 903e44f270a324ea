cp "$GOLDEN/small.json" .
memplan exec --model small.json -- no-such-command
