# Each limit names itself.
cp "$GOLDEN/small.json" .
set_one() { memplan --model small.json --set "$1"; }
sixty=$(seq -s, 1000 1059)
set_one 'model.vocab_size={"any_of": []}'
set_one "model.vocab_size={\"any_of\": [$sixty,1,2,3,4,5]}" 2>&1 | sed 's/.*: any_of/any_of/'
memplan --model small.json --set "model.vocab_size={\"any_of\": [$sixty]}" \
    --set "model.intermediate_size={\"any_of\": [$sixty]}" \
    --set 'training.steps={"any_of": [1, 2]}'
set_one model.hidden_size=2147483648
set_one training.steps=65
set_one training.gradient_accumulation_steps=65537
