# Standard streams and exit code are the command's own, and nothing is added to them.
cp "$GOLDEN/small.json" .
echo input | memplan exec --model small.json -- sh -c 'cat; echo error >&2; echo "$0 $*"; exit 41' a --seq b
