. "$GOLDEN/machine.sh"; play h100x8
MEMPLAN_NVML=$FAKES/libfake_old_nvml.so memplan probe
