memplan list optimizers
