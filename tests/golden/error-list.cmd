echo '[1, 2]' >list.json
memplan --model list.json
