mkdir folder
memplan --model folder
