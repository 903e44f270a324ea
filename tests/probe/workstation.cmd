. "$GOLDEN/machine.sh"; play workstation
memplan probe
echo
CUDA_DEVICE_ORDER=PCI_BUS_ID memplan probe
