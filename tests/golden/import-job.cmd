cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan job-1.sh
plan job-2.sh deepspeed-2.json
plan job-3.sh deepspeed-1.json
plan job-4.sh deepspeed-6.json
plan job-5.sh accelerate-6.yaml
plan job-6.sh
plan job-7.sh accelerate-4.yaml llamafactory-5.yaml
