cp "$GOLDEN/small.json" .
memplan --model small.json --json >report
code=$?
wc -l <report | tr -d ' '
# Which members it has; their values are the business of other tests.
grep -o '"[a-z_]*": *' report | tr -d ' ' | sort -u | tr '\n' ' '
echo
exit $code
