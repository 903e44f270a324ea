# Without a plan that does not fit, the first code that is not zero.
cp "$GOLDEN/small.json" "$GOLDEN/config.json" .
memplan check small.json config.json missing.json --seq 1024
