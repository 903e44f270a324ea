# Options after the command's name are the command's.
cp "$GOLDEN/small.json" .
memplan exec --model small.json echo --seq --force
