. "$GOLDEN/machine.sh"; play mig
memplan probe
