memplan --version
memplan check --version
