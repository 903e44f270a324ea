# Refused by its size, before it is read; and what has no size, after as much as a plan may have.
truncate -s 1G large.json
timeout 5 memplan --model large.json
echo "$?"
timeout 60 memplan --model /dev/zero
