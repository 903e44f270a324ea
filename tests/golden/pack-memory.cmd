# The starting case: steps of an epoch beside the memory of each length; and lengths that vary.
cp "$GOLDEN/../../examples/chat-lengths.txt" chats.txt
memplan pack --rule speculators --model eagle3 --seq 4096,12288,16384,24576,32768 chats.txt
memplan pack --rule none --model llama-3.2-1b --gpu 4090 --batch 4 --seq 2048 --within 100 chats.txt
memplan pack --json --rule trl-bfd --model llama-3.2-1b --gpu 4090 --batch 4 --seq 1024 --within 100 chats.txt
