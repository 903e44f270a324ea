# A memory snapshot of PyTorch under other settings; what was recorded comes out again.
memplan replay "$GOLDEN/replay/snapshot.json" --conf expandable_segments:True \
    --conf roundup_power2_divisions:4 --conf max_split_size_mb:20 --svg map.svg | sed "s|$GOLDEN|.|"
head -n 3 map.svg
