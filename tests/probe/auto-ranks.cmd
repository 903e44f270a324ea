. "$GOLDEN/machine.sh"; play h100x8 cuda
# eight ranks: the fullest card decides, wherever the number of ranks stands
export CUDA_VISIBLE_DEVICES=1,2,3,4,5,6,7,0
for options in "--gpu auto --gpus 8" "--gpus 4 --gpu auto" "--gpus 2 --gpu auto"; do
    memplan --model llama-3.2-1b --seq 512 --set parallelism.strategy=fsdp2 $options --no-suggestions |
        sed -n "/^The card/,/can give/p"
done
