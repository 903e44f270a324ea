cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan accelerate-1.yaml
plan accelerate-2.yaml
plan accelerate-3.yaml
plan accelerate-4.yaml
plan accelerate-5.yaml
plan accelerate-6.yaml arguments-2.yaml
