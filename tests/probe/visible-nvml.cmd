. "$GOLDEN/machine.sh"; play h100x8
# without the CUDA driver: places, the first invalid entry, short UUIDs, one named twice, nothing
for list in 2,0,-1,1 " 1gpu, 2nd" 7,GPU-40414243 GPU-4,1 GPU-80818283,GPU-2 1,9,2; do
    CUDA_VISIBLE_DEVICES="$list" memplan probe | sed -n "/^  [0-9]/p; /VISIBLE/p"
done
CUDA_VISIBLE_DEVICES= memplan probe >/dev/null; echo "exit $?"
CUDA_VISIBLE_DEVICES=8 memplan probe >/dev/null; echo "exit $?"
CUDA_VISIBLE_DEVICES=1,2,1 memplan probe >/dev/null; echo "exit $?"
CUDA_VISIBLE_DEVICES=GPU- memplan probe >/dev/null; echo "exit $?"
CUDA_VISIBLE_DEVICES=GPU-4,GPU-40 memplan probe >/dev/null; echo "exit $?"
