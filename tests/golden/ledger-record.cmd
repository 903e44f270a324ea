# What record takes and refuses; numbers join the plan's observations.
same() { sed 's/[0-9]*-[0-9]*-[0-9]*T[0-9:.]*Z/TIME/g; s/record [0-9a-f]\{12\}/record ID/g; s/recorded [0-9a-f]\{12\}/recorded ID/; s/ledger: [^ ]*, TIME/ledger: HOST, TIME/g; s/on [^ ]*, TIME/on HOST, TIME/g; s/; in .*/; in FILE/'; }
run() { memplan "$@" >out 2>err; code=$?; same <out; same <err | sed 's/^/(stderr) /'; echo "-> $code"; }
cp "$GOLDEN/small.json" .
run record --model small.json
run record --ran
run record --model small.json --ran --oom
run record --model small.json --oom --bytes 1GB
run record --model small.json --metric device --ran
run record --model small.json --bytes 1.2GX
run record --model small.json --bytes 1.2GB --metric peak
run record --model small.json --seq -1 --ran
run record --model small.json --ran --set 'training.sequence_length={"any_of": [64, 128]}'
run record --model small.json --log none.log
echo 'epoch 1 done' >fine.log
run record --model small.json --log fine.log
run record --model small.json --ran --no-ledger
run record --model small.json --ran --ledger small.json/x
run record --model small.json --bytes 1.71GB --metric allocated
run record --model small.json --seq 512 --bytes 1.2
run record --model small.json --seq 4096 --log "$GOLDEN/read-log.txt"
memplan --model small.json --no-suggestions | sed -n '/^Readings/,/^$/p' | same
memplan history --json | grep -o '"\(bytes\|metric\|outcome\|sequence_length\|kind\|form\)": .*'
# Another process held most of the card: that says nothing of a card without it.
cat >shared.log <<'END'
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.00 GiB of which 512.00 MiB is free. Process 4711 has 2.00 GiB memory in use. Including non-PyTorch memory, this process has 1.50 GiB memory in use. Of the allocated memory 1.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.
END
run record --model small.json --seq 2048 --log shared.log
run check --model small.json --seq 2048 --no-readings
run check --model small.json --seq 2048 --set device.other_bytes=2GiB
# The same number told twice, or by the plan too, is one reading; the order does not matter.
lines() { memplan --model "$1" --no-suggestions --ledger "$2" | sed -n '/^Readings/,/^$/p'; }
for seq in 512 1024 512; do
    memplan record --model small.json --seq $seq --bytes 1.71GB --metric allocated --ledger a.jsonl >out
done
for seq in 1024 512; do
    memplan record --model small.json --seq $seq --bytes 1.71GB --metric allocated --ledger b.jsonl >out
done
lines small.json a.jsonl | cut -c 6- | sort >a && lines small.json b.jsonl | cut -c 6- | sort >b && cmp a b && grep -c 1.71 a
sed 's/"software"/"observations": [{"sequence_length": 512, "bytes": "1.71GB", "metric": "allocated"}], &/' small.json >told.json
lines told.json a.jsonl | grep -c 1.71
