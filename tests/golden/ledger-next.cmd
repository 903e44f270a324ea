# What to run next.
join() { sed ':a;N;$!ba;s/\n \{4,\}/ /g'; }
same() { sed 's/[0-9]*-[0-9]*-[0-9]*T[0-9:.]*Z/TIME/g; s/record [0-9a-f]\{12\}/record ID/g; s/recorded [0-9a-f]\{12\}/recorded ID/; s/on [^ ]*, TIME/on HOST, TIME/g; s/; in .*/; in FILE/'; }
run() { memplan "$@" >out 2>err; code=$?; join <out | same; same <err | sed 's/^/(stderr) /'; echo "-> $code"; }
cp "$GOLDEN/small.json" .
run next --model small.json
run next --model small.json --explore --multiple-of 16
run next --model small.json --field micro_batch_size
run next --model small.json --field training.lora.r
run next --model small.json --set device.total_bytes=1GiB
run next --model small.json --set device.total_bytes=null
run record --model small.json --seq 3072 --oom
run record --model small.json --seq 2048 --ran
run next --model small.json --multiple-of 1024
run next --model small.json --set device.total_bytes=2GiB
# The model is contradicted: what ran is proposed, or halfway to what failed.
run record --model small.json --seq 1536 --oom
run record --model small.json --seq 512 --ran
run next --model small.json
run next --model small.json --explore --json
