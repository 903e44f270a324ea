. "$GOLDEN/machine.sh"
memplan probe; echo "exit $?"
memplan probe --json
