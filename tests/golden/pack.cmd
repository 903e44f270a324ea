# Steps of an epoch by sequence length: packed by each rule, from text, JSON Lines and a histogram.
lengths=$GOLDEN/../../examples/chat-lengths.txt
cp "$lengths" chats.txt
memplan pack --rule speculators --world 4 --seq 4096,8192,12288,16384 chats.txt
for rule in trl-bfd trl-bfd-split trl-wrapped trl-constant torchtitan torchtitan-chat none none-flat; do
    memplan pack --rule $rule --world 4 --batch 2 --accumulate 2 --seq 512,4096 chats.txt | tail -n 2
done
printf '%s\n' 100 200 300 >lengths.txt
printf '{"length": %s}\n' 100 200 300 >lengths.jsonl
printf '{"text": "x", "n": 100}\n{"n": 200}\n{"n": [1, 2, 3]}\n' >member.jsonl
printf '[1, 2, 3]\n5\n' >ids.jsonl
for file in lengths.txt lengths.jsonl ids.jsonl; do
    memplan pack --json --rule none --batch 3 --seq 256 --multiple-of 64 $file
done
memplan pack --json --rule none --member n --seq 256 member.jsonl
memplan pack --json --rule trl-bfd --seq 256 - <lengths.txt
