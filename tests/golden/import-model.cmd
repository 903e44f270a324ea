# A configuration behind --model, and a plan of several through a pipe.
cd "$GOLDEN" || exit 1
memplan --model "import/llamafactory-2.yaml" --gpu "H100 80GB HBM3" --no-suggestions
memplan import import/job-4.sh "import/deepspeed-6.json" config.json \
    -o "$OLDPWD/plan.json"
memplan check --gpu "A100 40GB" - <"$OLDPWD/plan.json"
memplan --model "import/deepspeed-1.json"
memplan import
memplan import -o
memplan check -o x "$OLDPWD/plan.json"
memplan import "import/axolotl-2.yaml" -o /nowhere/plan.json
