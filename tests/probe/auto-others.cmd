. "$GOLDEN/machine.sh"
for machine in workstation spark unknown-card; do
    play $machine cuda
    memplan --model llama-3.2-1b --seq 512 --gpu auto --no-suggestions >report; echo "$machine: exit $?"
    sed -n "/^The card/,/can give/p; /^CANNOT/,/^\$/p; /N008/p" report
done
play unknown-card cuda
memplan check --model llama-3.2-1b --seq 512 --gpu auto --set "device.context_bytes=1 GiB"
