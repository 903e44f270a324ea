memplan --model nowhere
