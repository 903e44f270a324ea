# exec --record: streams, signals and exit codes are the command's own; what became of it is recorded.
same() { sed 's/[0-9]*-[0-9]*-[0-9]*T[0-9:.]*Z/TIME/g; s/recorded [0-9a-f]\{12\}/recorded ID/; s/; in .*/; in FILE/; /Terminated/d'; }
run() { memplan exec --model small.json --record "$@" >out 2>err; code=$?; cat out; same <err | sed 's/^/(stderr) /'; echo "-> $code"; }
cp "$GOLDEN/small.json" .
echo input | memplan exec --model small.json --record -- sh -c 'cat; echo error >&2; echo "$0 $*"; exit 41' a --seq b 2>err
echo "-> $?"
cat err
run -- true
run --seq 2048 -- sh -c 'sed -n 1,20p "$GOLDEN/read-log.txt" >&2; exit 1'
run -- sh -c 'sed -n 1,20p "$GOLDEN/read-log.txt" >&2'
run -- sh -c 'kill -TERM $$'
run -- ./none
run --ledger /dev/null/x -- echo launched
run --no-ledger -- echo launched
# A signal that is sent to memplan reaches the command, which may end as it likes.
memplan exec --model small.json --record -- sh -c 'trap "echo got it; exit 7" TERM; : >ready; while :; do sleep 0.05; done' &
while [ ! -e ready ]; do sleep 0.05; done
kill -TERM $!
wait $!
echo "-> $?"
# Who is left behind does not hold the caller up, and can still write.
run -- sh -c '(sleep 0.3; echo late >&2; : >late) & exit 0'
while [ ! -e late ]; do sleep 0.05; done
cat err | grep -c late
memplan history | awk 'NR > 1 { print $2, $3, $4, $5 }'
