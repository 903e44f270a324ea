cp "$GOLDEN/small.json" .
memplan --model small.json --dump=timeline >timeline
code=$?
head -n 5 timeline
cut -f 1 timeline | sort | uniq -c | sed 's/^ *//'
exit $code
