cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan trl-1.sh
plan trl-2.sh
plan trl-3.sh
plan trl-4.sh
plan trl-5.sh accelerate-2.yaml
plan trl-6.sh
plan trl-7.sh
memplan check --gpu "H100 80GB HBM3" trl-1.sh trl-2.sh trl-3.sh trl-4.sh trl-6.sh trl-7.sh
