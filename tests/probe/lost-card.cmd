. "$GOLDEN/machine.sh"; play lost cuda
memplan probe
