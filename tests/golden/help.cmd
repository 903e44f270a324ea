memplan help
