. "$GOLDEN/machine.sh"; play mig cuda
memplan probe
