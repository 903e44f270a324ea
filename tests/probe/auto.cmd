. "$GOLDEN/machine.sh"; play h100x8 cuda
cp "$GOLDEN/../golden/small.json" .
card() { sed -n "/^FITS\|^DOES\|^CANNOT\|^INSIDE/p; /^The card/,/can give/p; /^  N00[4-9]/,\$p"; }
# one rank runs on card 0, two on cards 0 and 1, which leaves more
memplan --model small.json --gpu auto --no-suggestions | card
CUDA_VISIBLE_DEVICES=3,1 memplan --model small.json --gpu auto --no-suggestions | card
memplan check --model small.json --gpu auto --gpu L4
echo; echo "options after it override"
memplan --model small.json --gpu auto --set device.other_bytes=0 --set device.reserve_bytes=1073741824 --no-suggestions | card
