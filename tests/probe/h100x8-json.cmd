. "$GOLDEN/machine.sh"; play h100x8 cuda
CUDA_VISIBLE_DEVICES=3,0 memplan probe --json | python3 -c "
import json, sys
d = json.load(sys.stdin)
for c in d[\"cards\"]:
    if c[\"visible\"] is not None:
        print(json.dumps(c, indent=1, sort_keys=True))
print(d[\"order\"], d[\"environment\"], d[\"sources\"])"
