. "$GOLDEN/machine.sh"; play h100x8 cuda
CUDA_VISIBLE_DEVICES=2,0,-1,1 memplan probe
