# A smaller card, a fraction of it, an older release; and JSON.
head -n 1 "$GOLDEN/replay/cases.jsonl" >case.json
memplan replay case.json --total 4MiB --fraction 0.5 --until 40 --conf expandable_segments:True
memplan replay case.json --until 3 --json
memplan replay case.json --pytorch 2.8.0 --conf large_segment_size_mb:40
