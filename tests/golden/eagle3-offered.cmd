memplan --model eagle3 --seq 24576 --set 'model.head_dim={"any_of":[64,112]}' --set 'training.compile={"any_of":["inductor","none"]}' | sed -n '/^Readings/,/^What decides/p'
