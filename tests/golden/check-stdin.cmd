memplan check --seq 256 - <"$GOLDEN/small.json"
