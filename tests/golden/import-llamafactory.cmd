cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan llamafactory-1.yaml deepspeed-2.json
plan llamafactory-2.yaml
plan llamafactory-3.yaml
plan llamafactory-4.yaml
plan llamafactory-5.yaml accelerate-4.yaml
plan llamafactory-6.yaml
plan llamafactory-7.yaml
