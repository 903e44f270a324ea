memplan estimate small.json
