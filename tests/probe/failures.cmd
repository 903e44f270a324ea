. "$GOLDEN/machine.sh"
for machine in no-card not-loaded mismatch crash; do
    play $machine cuda
    memplan probe; echo "$machine: exit $?"
done
play hang
memplan probe --timeout 1; echo "hang: exit $?"
echo "not a library" >broken.so
MEMPLAN_NVML=$PWD/broken.so memplan probe 2>&1 | sed "s,$PWD/,,; s,:.*broken,: broken,"
