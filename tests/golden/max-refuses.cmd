# Nothing fits: 3. No verdict: 5. Wrong usage: 2, one line.
memplan max --model llama-3-8b --gpu L4 sequence_length; echo "code $?"
cp "$GOLDEN/config.json" .
memplan max --model config.json sequence_length; echo "code $?"
memplan max --model llama-3-8b --gpus 2 sequence_length; echo "code $?"
memplan max --model llama-3-8b training.attention; echo "code $?"
memplan max --model llama-3-8b squence_length; echo "code $?"
memplan max --model llama-3-8b; echo "code $?"
memplan max sequence_length; echo "code $?"
memplan max --model llama-3-8b --multiple-of 0 sequence_length; echo "code $?"
memplan max --model llama-3-8b --from 10 --to 5 sequence_length; echo "code $?"
memplan max --model llama-3-8b --to 1MiB sequence_length; echo "code $?"
memplan min --model llama-3-8b --from 99999999999999999999 total_bytes; echo "code $?"
