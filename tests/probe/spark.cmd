. "$GOLDEN/machine.sh"; play spark cuda
memplan probe
