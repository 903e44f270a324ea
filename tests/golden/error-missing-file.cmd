memplan --model ./nowhere.json
