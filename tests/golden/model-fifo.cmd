mkfifo pipe
cat "$GOLDEN/small.json" >pipe &
memplan --model pipe --no-suggestions | head -n 4
