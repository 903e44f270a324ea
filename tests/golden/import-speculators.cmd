# What a drafter is trained with depends on the release; what is not modelled is refused by name.
cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
judge() { memplan check --gpu "H100 80GB HBM3" "$@"; }
plan --release 0.5.0 speculators-1.sh
plan speculators-1.sh
plan --release 0.6.0.2 speculators-2.sh
plan speculators-3.sh
plan speculators-4.sh
plan speculators-5.sh
plan speculators-6.sh
plan --release 0.6.0 speculators-6.sh
plan --release 1.0.0 speculators-2.sh
judge --set framework.version=0.5.0 speculators-1.sh
judge speculators-3.sh speculators-4.sh speculators-6.sh
