. "$GOLDEN/machine.sh"; play workstation cuda
MEMPLAN_NVML=$PWD/none memplan probe
