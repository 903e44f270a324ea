# The command is the process itself: the shell sees the signal that ended it.
cp "$GOLDEN/small.json" .
memplan exec --model small.json -- sh -c 'kill -PIPE $$'
echo "$?"
