memplan list losses
