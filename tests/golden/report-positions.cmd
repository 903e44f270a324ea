# What would fit ends where the model's positions do.
memplan --model bert-base-uncased --seq 100 | grep Longest
memplan --model gpt2 --seq 512 --set model.max_position_embeddings=1000 | grep Longest
memplan --model gpt2 --seq 64 --set model.max_position_embeddings=100 | grep -c Longest
