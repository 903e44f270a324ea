# SPDX-License-Identifier: MIT
# Sourced by the cases: plays MACHINE; without "cuda" as second word there is no CUDA driver.
# usage: . "$GOLDEN/machine.sh"; play MACHINE [cuda]
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES
export MEMPLAN_PROBE_ROOT="$PWD/root" MEMPLAN_FAKE
export MEMPLAN_NVML="$PWD/no-nvml" MEMPLAN_CUDA="$PWD/no-cuda"

play() {
    MEMPLAN_FAKE=$1 MEMPLAN_NVML=$FAKES/libfake_nvml.so
    [ "${2:-}" != cuda ] || MEMPLAN_CUDA=$FAKES/libfake_cuda.so
}

# file PATH TEXT: a file of the machine.
file() {
    mkdir -p "$(dirname "root$1")"
    printf '%s\n' "$2" >"root$1"
}

# amd NODE RENDER DEVICE GFX TOTAL USED: a card of AMD, as the amdgpu driver shows it.
amd() {
    node=/sys/class/kfd/kfd/topology/nodes/$1 device=/sys/class/drm/renderD$2/device
    file "$node/gpu_id" "$((1000 + $1))"
    file "$node/properties" "simd_count $7
simd_per_cu 4
gfx_target_version $4
drm_render_minor $2
unique_id $((7000 + $1))"
    file "$device/device" "$3"
    file "$device/revision" 0x00
    file "$device/uevent" "DRIVER=amdgpu
PCI_SLOT_NAME=0000:$(printf %02x "$1"):00.0"
    file "$device/mem_info_vram_total" "$5"
    file "$device/mem_info_vram_used" "$6"
}
