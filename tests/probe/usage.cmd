. "$GOLDEN/machine.sh"
memplan probe --timeout 0; echo "exit $?"
memplan probe cards; echo "exit $?"
memplan probe --help
