cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan arguments-1.yaml
plan arguments-2.yaml
plan arguments-3.yaml
plan arguments-4.yaml
plan arguments-5.json
plan arguments-6.json
plan arguments-6.json deepspeed-1.json
plan arguments-1.yaml deepspeed-2.json accelerate-2.yaml
