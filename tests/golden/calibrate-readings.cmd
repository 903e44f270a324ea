# The starting case with each reading alone, both, and wrong ones: what is concluded, and that
# nothing which died is ever said to fit.
first='{"sequence_length": 4096, "bytes": "28.5", "unit": {"any_of": ["GB", "GiB"]}}'
second='{"sequence_length": 8192, "bytes": "39.8", "unit": {"any_of": ["GB", "GiB"]}}'
gibibytes='{"sequence_length": 8192, "bytes": "39.8 GiB", "metric": "allocated"}'
mebibytes='{"sequence_length": 8192, "bytes": "39.8 MiB", "metric": "allocated"}'
settled='{"sequence_length": 4096, "bytes": "28.5 GB", "metric": "allocated"}'
ran='{"sequence_length": 16384, "outcome": "ran"}'
died='{"sequence_length": 32768, "outcome": "oom"}'
odd='{"sequence_length": 4096, "outcome": "oom"}'

conclude() {
    echo "== $1"
    echo "[$2]" >readings.json
    memplan calibrate --model eagle3 --no-readings --readings readings.json -o calibration |
        sed -n '1,/^Corrections/{/^Corrections/d;/^$/d;p;}'
    for seq in 16384 24576 32768; do
        memplan check --no-readings --calibration calibration --seq $seq eagle3
        echo "exit: $?"
    done
}
conclude "first alone" "$first"
conclude "second alone" "$second"
conclude "both" "$first, $second"
conclude "both, the first one twice" "$first, $second, $first"
conclude "the second in GiB" "$settled, $gibibytes"
conclude "the second in MiB" "$settled, $mebibytes"
conclude "outcomes alone" "$ran, $died"
conclude "one that died where it cannot" "$settled, $odd"
