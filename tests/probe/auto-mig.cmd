. "$GOLDEN/machine.sh"; play mig cuda
memplan check --model llama-3.2-1b --seq 512 --gpu auto
memplan --model llama-3.2-1b --seq 512 --gpu auto --no-suggestions | sed -n "/^The card/,/can give/p"
