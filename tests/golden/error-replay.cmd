# Traces that are none: one line each.
one() { printf '%s' "$1" | memplan replay -; }
one '{"events":[["a",1]]}'
one '{"events":[["a",1,-5,0]]}'
one '{"events":[["a","x",5,0]]}'
one '{"events":[["x"]]}'
one '{"events":[["r",1,99999999999]]}'
one '{"events":7}'
one '{"events":[],"total_mib":-1}'
one '{"events":[],"gpu":"slow"}'
one '{"events":[],"fraction":2}'
one '{"events":[],"conf":"max_split_size_mb:19"}'
one '{"events":[],"conf":"per_process_memory_fraction:0.5"}'
one '{"device_traces":[[],[]]}'
one '{"device_traces":[[{"action":"alloc","addr":1,"size":-4,"stream":0}]]}'
one '{}'
one '[1'
printf '{"events":[["e"]]}\n{"events":[["q",1]]}\n' | memplan replay --jsonl
memplan replay
memplan replay --total 3XB x
memplan replay --fraction 2 x
memplan replay --until 0 x
memplan replay x
