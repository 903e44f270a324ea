# A drafter died at 24576 tokens: that is not launched again, nor anything longer; what is proposed
# instead is launched, and one step more is not.
memplan record --model eagle3 --seq 24576 --oom >out
for seq in 32768 24576; do
    memplan exec --model eagle3 --seq $seq -- echo launched $seq 2>err
    echo "-> $?"
    grep -c 'ran out of memory at 24576 tokens, batch 1, on .*record' err
done
next=$(memplan next --model eagle3 --multiple-of 1024 --json | sed -n '/"proposal"/,/}/s/.*"value": \([0-9]*\),/\1/p')
memplan exec --model eagle3 --seq "$next" -- echo launched >out
echo "-> $?"
[ "$next" -ge 16384 ] && [ "$next" -lt 24576 ] && grep -c launched out
memplan exec --model eagle3 --seq $((next + 1024)) -- echo launched 2>err
echo "-> $?"
