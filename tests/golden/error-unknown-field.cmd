cp "$GOLDEN/small.json" .
memplan --model small.json --set training.optimiser.name=sgd
memplan --model small.json --set sequence_length=8192
memplan --model small.json --set training.sequence_length
sed 's/"micro_batch_size"/"micro_batchsize"/' small.json >plan.json
memplan --model plan.json
