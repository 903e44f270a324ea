: >empty.json
memplan --model empty.json
