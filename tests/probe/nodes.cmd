. "$GOLDEN/machine.sh"; play h100x8
# a container that was given two cards
file /dev/nvidiactl x; file /dev/nvidia1 x; file /dev/nvidia6 x
memplan probe
