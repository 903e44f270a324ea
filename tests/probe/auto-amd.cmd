. "$GOLDEN/machine.sh"
amd 1 128 0x74a1 90402 206141652992 50331648000 1216
file /usr/share/libdrm/amdgpu.ids "74A1,	00,	AMD Instinct MI300X"
memplan --model llama-3.2-1b --seq 512 --gpu auto --set "device.context_bytes=1 GiB" --no-suggestions |
    sed -n "/^The card/,/can give/p"
