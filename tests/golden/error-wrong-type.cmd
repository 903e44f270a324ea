sed 's/"hidden_size": 512/"hidden_size": "wide"/' "$GOLDEN/small.json" >plan.json
memplan --model plan.json
