memplan list gpus "H100 NVL"; memplan list gpus A800-SXM4-80GB; memplan list gpus MI300X
memplan list gpus "RTX 4091"; echo "exit $?"
memplan list gpus H100; echo "exit $?"
memplan list gpus RTX 4090
