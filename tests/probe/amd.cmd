. "$GOLDEN/machine.sh"
file /sys/class/kfd/kfd/topology/nodes/0/gpu_id 0
amd 1 128 0x74a1 90402 206141652992 298844160 1216
amd 2 136 0x74a1 90402 206141652992 50331648000 1216
amd 10 144 0x0001 110001 25753026560 1048576 384
file /usr/share/libdrm/amdgpu.ids "74A1,	00,	AMD Instinct MI300X"
file /sys/class/kfd/kfd/proc/321/vram_1002 49392123904
file /sys/class/kfd/kfd/proc/4000/vram_1002 0
file /proc/321/comm python
file /sys/module/amdgpu/version 6.14.14
memplan probe
echo
ROCR_VISIBLE_DEVICES=2,1 HIP_VISIBLE_DEVICES=1 memplan probe
echo
HIP_VISIBLE_DEVICES= memplan probe >/dev/null
