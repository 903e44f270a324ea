# Learned positions, and a table of rotary ones, end; a padding row of RoBERTa's is none.
memplan --model gpt2 --seq 1025
memplan --model roberta-base --seq 513
memplan --model bert-base-uncased --seq 513
