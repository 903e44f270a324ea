cd "$GOLDEN/import" || exit 1
plan() {
    echo "== $*"
    memplan import "$@" 2>&1 >"$OLDPWD/plan.json"
    sed '/"model": {/,/^  }/d; /"imported": \[/,/^  \]/d' "$OLDPWD/plan.json"
    : >"$OLDPWD/plan.json"
}
plan axolotl-1.yaml
plan axolotl-2.yaml
plan axolotl-3.yaml
plan axolotl-4.yaml
plan axolotl-5.yaml
plan axolotl-6.yaml
plan axolotl-7.yaml
