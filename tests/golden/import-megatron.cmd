# Megatron-LM's loop is not modelled: the plan says what was asked for, and no figure is given.
cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan megatron-1.sh
plan megatron-2.sh
plan megatron-3.sh
plan megatron-4.sh
plan megatron-5.sh
memplan check --gpu "H100 80GB HBM3" megatron-1.sh megatron-2.sh megatron-3.sh megatron-4.sh megatron-5.sh
