# A failure is recorded; what asks for as much or more is refused from then on, what asks for less is
# left to the model, more cautious by what the failure had too little; another run, a larger card and --no-ledger are left to the model.
same() { sed 's/[0-9]*-[0-9]*-[0-9]*T[0-9:.]*Z/TIME/g; s/record [0-9a-f]\{12\}/record ID/g; s/recorded [0-9a-f]\{12\}/recorded ID/; s/on [^ ]*, TIME/on HOST, TIME/g; s/; in .*/; in FILE/'; }
run() { memplan "$@" >out 2>err; code=$?; same <out; same <err | sed 's/^/(stderr) /'; echo "-> $code"; }
cp "$GOLDEN/small.json" .
run record --model small.json --seq 2560 --oom
for seq in 2432 2560 8192; do
    run check --model small.json --seq $seq
done
run check --model small.json --seq 2560 --batch 3
run check --model small.json --seq 2560 --batch 1
run check --model small.json --seq 2560 --set training.optimizer.name=sgd
run check --model small.json --seq 2560 --set device.total_bytes=8GiB
run check --model small.json --seq 2560 --set device.total_bytes=3GiB
run check --model small.json --seq 2560 --no-ledger
memplan --model small.json --seq 4096 >out
echo "-> $?"
tr -s ' \n' ' ' <out | same
echo
run exec --model small.json --seq 4096 -- echo launched
run exec --model small.json --seq 4096 --force -- echo launched
run --model small.json --seq 4096 --json | grep -c '"verdict":"does_not_fit","code":3,.*"ledger":'
memplan --jsonl <<END | grep -o '"verdict":"[a-z_]*"'
$(tr -d '\n' <small.json | sed 's/"sequence_length": 1024/"sequence_length": 4096/')
$(tr -d '\n' <small.json)
END
# It ran later: the failure is set aside.
run record --model small.json --seq 2560 --ran
run check --model small.json --seq 2560
