. "$GOLDEN/machine.sh"
file /sys/class/drm/card1/device/mem_info_vram_total 17163091968
memplan probe
