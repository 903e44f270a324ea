# The command has the process itself, its streams, its group and its limits, as if it had been called.
mkdir bin llama
cp "$GOLDEN/config.json" llama
printf '#!/bin/sh\necho $$ >pid\ncat\necho error >&2\nexec sleep 30\n' >bin/torchrun
chmod +x bin/*
PATH="$PWD/bin:$PATH"
: >in
memplan exec --gpu 'H100 80GB HBM3' -- torchrun t.py --model_name_or_path llama --model_max_length 512 <in >out 2>err &
pid=$!
while ! [ -s err ]; do sleep 0.05; done
[ "$(cat pid)" = $pid ] && echo 'the same process'
kill -TERM $pid
{ wait $pid; } 2>waiting
echo "-> $?"
cat out err
# Text that goes by is not changed where it is watched, and its order is kept.
cat >bin/torchrun <<'END'
#!/bin/sh
i=0
while [ $i -lt 300 ]; do printf 'line %d\r\033[1mbold\033[0m\n' $i >&2; i=$((i + 1)); done
printf 'no end' >&2
exit 9
END
run() { memplan exec --gpu 'H100 80GB HBM3' "$@" -- torchrun t.py --model_name_or_path llama --model_max_length 512; }
run 2>plain
echo "-> $?"
run --record 2>watched
echo "-> $?"
head -c "$(wc -c <plain)" watched | cmp - plain && echo 'the same bytes'
tail -c "+$(($(wc -c <plain) + 1))" watched
# The same on a terminal.
export -p >environment
seen() { script -qec ". ./environment; memplan exec --gpu 'H100 80GB HBM3' $1 -- torchrun t.py --model_name_or_path llama --model_max_length 512" log >/dev/null; echo "-> $?"; sed '1d;/^Script done/d' log; }
seen '' >plain
seen --record | sed 's/^memplan: .*//;s/no endmemplan: .*/no end/' >watched
tr -d '\n\r' <plain >a
tr -d '\n\r' <watched >b
cmp a b && echo 'the same bytes on a terminal'
head -1 watched
