# Each answer stands beside the next value, which does not fit.
memplan max --model llama-3-8b sequence_length
memplan max --model llama-3-8b --multiple-of 1000 --from 500 --to 4500 training.sequence_length
memplan max --model eagle3 ttt_steps
memplan max --model llama-3-8b --seq 512 model.num_hidden_layers --json
