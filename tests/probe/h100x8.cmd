. "$GOLDEN/machine.sh"; play h100x8 cuda
memplan probe
