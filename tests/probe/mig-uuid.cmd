. "$GOLDEN/machine.sh"; play mig
CUDA_VISIBLE_DEVICES=MIG-16171819-1a1b-1c1d-1e1f-202122232425 memplan probe
