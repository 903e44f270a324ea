. "$GOLDEN/machine.sh"
memplan check --model llama-3.2-1b --gpu auto; echo "exit $?"
memplan exec --model llama-3.2-1b --gpu auto -- echo runs; echo "exit $?"
printf "%s\n" "{\"model\": {\"model_type\": \"llama\"}}" | memplan --jsonl --gpu auto; echo "exit $?"
play hang
MEMPLAN_FAKE=mismatch memplan --model llama-3.2-1b --gpu auto; echo "exit $?"
play h100x8 cuda
CUDA_VISIBLE_DEVICES= memplan --model llama-3.2-1b --gpu auto; echo "exit $?"
memplan check --model llama-3.2-1b --gpu auto --seq many
