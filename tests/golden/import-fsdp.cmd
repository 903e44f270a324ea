cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan fsdp-1.json
plan fsdp-2.json
plan fsdp-3.json
plan fsdp-4.json
plan fsdp-5.json job-1.sh
