. "$GOLDEN/machine.sh"; play workstation cuda
memplan probe
