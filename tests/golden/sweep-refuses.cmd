for what in '' 'sequence_length' 'sequence_length=' 'sequence_length=1..2:0' 'sequence_length=9..1' \
    'sequence_length=1..8*1' 'sequence_length=1..999999999' 'sequence_length=1..99999999999999999999' \
    'attention=a..b' 'nothing=1' 'total_bytes=1..much' 'card.total_mib=1'; do
    memplan sweep --model llama-3-8b "$what"; echo "code $?"
done
memplan sweep --model llama-3-8b; echo "code $?"
memplan sweep --model llama-3-8b sequence_length=1..100 micro_batch_size=1..100; echo "code $?"
memplan sweep --model llama-3-8b sequence_length=1 training.sequence_length=2; echo "code $?"
memplan sweep --model llama-3-8b sequence_length=1 micro_batch_size=1 --svg x; echo "code $?"
memplan sweep --model llama-3-8b sequence_length=1 --json --tsv; echo "code $?"
memplan sweep sequence_length=1; echo "code $?"
memplan sweep --model llama-3-8b --peaks-only world_size=2,3; echo "code $?"
memplan sweep --model llama-3-8b --peaks-only --seq 16384 num_hidden_layers=32; echo "code $?"
cp "$GOLDEN/config.json" .
memplan sweep --model config.json --peaks-only sequence_length=512; echo "code $?"
