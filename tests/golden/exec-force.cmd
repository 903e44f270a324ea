cp "$GOLDEN/small.json" .
memplan exec --model small.json --seq 65536 --force -- sh -c 'echo ran; exit 5'
echo "$?"
memplan exec --model missing.json --force -- echo ran
