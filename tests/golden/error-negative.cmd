sed 's/"hidden_size": 512/"hidden_size": -1/' "$GOLDEN/small.json" >plan.json
memplan --model plan.json
