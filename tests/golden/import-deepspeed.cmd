cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan deepspeed-1.json
plan deepspeed-2.json
plan deepspeed-3.json
plan deepspeed-4.json
plan deepspeed-5.json
plan deepspeed-6.json
