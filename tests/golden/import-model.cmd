# A configuration behind --model, and a plan of several through a pipe.
cd "$GOLDEN" || exit 1
memplan --model import/llamafactory-2.yaml --gpu "H100 80GB HBM3" --no-suggestions
memplan import import/job-4.sh import/deepspeed-6.json config.json \
    -o "$OLDPWD/plan.json"
memplan check --gpu "A100 40GB" - <"$OLDPWD/plan.json"
memplan --model import/deepspeed-1.json
memplan import import/model-1.json
memplan check --seq 2048 --gpu "H200" import/model-1.json
for i in 2 3 4 5 6; do # parameters are those that the models' pages give
    memplan --seq 2048 --json --no-suggestions --model import/model-$i.json |
        grep -o '"parameters": *[0-9][0-9]*' | tail -n 1
done
memplan import import/model-6.json
memplan import import/arguments-1.yaml import/deepspeed-2.json import/accelerate-3.yaml 2>"$OLDPWD/notes" |
    memplan check --gpu "A100 80GB PCIe" -
memplan import
memplan import -o
memplan check -o x "$OLDPWD/plan.json"
memplan import import/axolotl-2.yaml -o /nowhere/plan.json
