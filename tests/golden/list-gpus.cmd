memplan list gpus
