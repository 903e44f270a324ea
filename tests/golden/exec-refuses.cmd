cp "$GOLDEN/small.json" .
memplan exec --model small.json --seq 65536 -- touch ran
code=$?
[ ! -e ran ] || echo 'it ran'
exit $code
