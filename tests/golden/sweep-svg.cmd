memplan sweep --model eagle3 sequence_length=4096..28672:8192 --svg out.svg
cat out.svg
memplan sweep --model llama-3-8b --peaks-only 'sequence_length=1024..4096*2' --svg peaks.svg >/dev/null
grep -c -e polygon -e observed peaks.svg
memplan sweep --model llama-3-8b sequence_length=1024 --svg nowhere/out.svg
