cp "$GOLDEN/small.json" .
memplan --model small.json --set training.evaluation.batches=3 --set checkpoint.resume=cuda --no-suggestions
memplan --model small.json --set training.evaluation.batches=3 --set training.evaluation.keep_logits=false --set training.evaluation.gradients=true --no-suggestions | sed -n "/^Memory/,/moments/p"
