memplan list families
