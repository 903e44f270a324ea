cp "$GOLDEN/small.json" .
memplan --model small.json --gpu 'Voodoo 2'
