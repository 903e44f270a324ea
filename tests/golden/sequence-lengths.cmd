# Batches whose lengths differ, in turn; what cannot be combined is refused by name.
one() { memplan --model gpt2 --gpu 4090 --set training.steps=4 "$@"; }
one --seq 900 --set 'training.sequence_lengths=[300, 900, 600, 128]'
one --seq 900 --set 'training.sequence_lengths=[300, 900]' --json | tr ',' '\n' | grep -c '"step"\|sequence_lengths'
one --seq 800 --set 'training.sequence_lengths=[300, 900]'
one --seq 900 --set 'training.sequence_lengths=[300, 900, 1, 2, 3]'
one --seq 900 --set 'training.sequence_lengths=[300, 0]'
one --seq 900 --set 'training.sequence_lengths=[300, 1.5]'
one --seq 900 --set 'training.sequence_lengths=900'
one --seq 900 --set 'training.sequence_lengths=[900, 300]' --set training.optimizer.name=sophia
one --seq 900 --set 'training.sequence_lengths=[900, 300]' --set training.loss.name=dpo
one --seq 900 --set 'training.sequence_lengths=[900, 300]' --set training.offload_activations=true
memplan --model eagle3 --set 'training.sequence_lengths=[4096, 300]'
one --seq 900 --set 'training.sequence_lengths=[]' --dump=spec | grep -A3 sequence_lengths
