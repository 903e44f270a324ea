i=0
while [ $i -lt 200 ]; do printf '{"a":'; i=$((i + 1)); done >deep.json
printf '1' >>deep.json
while [ $i -gt 0 ]; do printf '}'; i=$((i - 1)); done >>deep.json
memplan --model deep.json
