#!/bin/bash
# SPDX-License-Identifier: MIT
# The pre-commit hooks and the GitHub action do what they say. Prints TAP.
# usage: hooks.sh MEMPLAN SOURCE_ROOT
set -u
memplan=$(realpath "$1") root=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/repo"
ln -s "$memplan" "$work/bin/memplan"
export PATH=$work/bin:$PATH MEMPLAN_MODELS=$root/models XDG_STATE_HOME=$work/state LC_ALL=C
small=$root/tests/golden/small.json
n=0 failed=0

# expect NAME CODE TEXT COMMAND...: its exit code, and a text in what it prints; "!TEXT": not in it.
expect() {
    local name=$1 code=$2 text=$3 got found=1
    shift 3
    n=$((n + 1))
    "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    [ -z "$text" ] || grep -q -F -- "${text#!}" "$work/out" && found=0
    [ "$text" = "${text#!}" ] || found=$((1 - found))
    if [ "$got" = "$code" ] && [ "$found" = 0 ]; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name: exit code $got, expected $code and \"$text\""
        sed 's/^/# /' "$work/out"
        failed=1
    fi
}

cd "$work/repo" || exit 1
mkdir -p runs 'a b'
cp "$small" runs/good.plan.json
cp "$small" 'a b/plan.json'
sed 's/"4 GiB"/"1 GiB"/' "$small" >runs/tight.plan.json
sed '/"device"/,/^  }/d; s/"24.0" },/"24.0" }/; s/5.24.0" },/5.24.0" }/' "$small" >runs/open.plan.json

# --- .pre-commit-hooks.yaml: what pre-commit would run, and on which files ---
hooks=$root/.pre-commit-hooks.yaml
entry=$(sed -n 's/^  entry: //p' "$hooks" | head -n 1)
pattern=$(sed -n 's/^  files: //p' "$hooks" | head -n 1)
matches() {
    python3 -c 'import re, sys; sys.exit(not re.search(sys.argv[1], sys.argv[2]))' "$pattern" "$1"
}
for file in plan.json runs/good.plan.json llama-plan.json llama_plan.json 'a b/plan.json'; do
    expect "hook takes $file" 0 '' matches "$file"
done
for file in floorplan.json plan.json.orig plan.jsonl runs/plan.yaml package.json plans/a.json; do
    expect "hook leaves $file" 1 '' matches "$file"
done
# shellcheck disable=SC2086 # the words of the entry
{
    expect 'hook: all fit' 0 'fits' $entry runs/good.plan.json 'a b/plan.json'
    expect 'hook: one does not' 3 'does not fit   runs/tight.plan.json' \
        $entry runs/good.plan.json runs/tight.plan.json
    expect 'hook: one cannot be read' 2 'fits           runs/good.plan.json' \
        $entry runs/none.plan.json runs/good.plan.json
    expect 'hook: with its arguments' 0 '!no card' $entry --gpu 'H100 80GB HBM3' runs/open.plan.json
}
# The real one, where it is installed.
if command -v pre-commit >/dev/null && command -v git >/dev/null; then
    export HOME=$work GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
    export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
    git init -q "$work/hooks" && cp "$hooks" "$work/hooks/" && git -C "$work/hooks" add -A &&
        git -C "$work/hooks" commit -q -m hooks
    git init -q .
    printf 'repos:\n  - repo: %s\n    rev: %s\n    hooks:\n      - id: memplan-check\n' \
        "$work/hooks" "$(git -C "$work/hooks" rev-parse HEAD)" >.pre-commit-config.yaml
    git add runs/good.plan.json 'a b/plan.json' .pre-commit-config.yaml
    expect 'pre-commit: manifest' 0 '' pre-commit validate-manifest "$hooks"
    expect 'pre-commit: passes' 0 'Passed' pre-commit run
    git add -A
    expect 'pre-commit: fails' 1 'does not fit   runs/tight.plan.json' pre-commit run
    git reset -q runs/tight.plan.json runs/open.plan.json
    git commit -q -n -m plans
    rm -rf .git .pre-commit-config.yaml
else
    echo '# pre-commit is not installed: its own run is left out'
fi

# --- the GitHub action's step ---
step=$root/integrations/github-action/check.sh
action() {
    rm -f "$work/output" "$work/summary"
    env GITHUB_OUTPUT="$work/output" GITHUB_STEP_SUMMARY="$work/summary" "$@" "$step"
}
expect 'action: fits' 0 '!::' action MEMPLAN_PLANS='runs/good.plan.json'
expect 'action: pattern' 3 '::error file=runs/tight.plan.json::memplan: does not fit' \
    action MEMPLAN_PLANS='**/*plan.json'
expect 'action: a name with a blank' 0 'fits           a b/plan.json' action MEMPLAN_PLANS='**/plan.json'
expect 'action: output' 0 'code=0' cat "$work/output"
expect 'action: summary' 0 '    fits ' cat "$work/summary"
expect 'action: cannot tell' 5 '::warning file=runs/open.plan.json::' action MEMPLAN_PLANS=runs/open.plan.json
expect 'action: cannot tell is let through' 0 '::warning' \
    action MEMPLAN_PLANS=runs/open.plan.json MEMPLAN_REFUSE=
expect 'action: a card' 0 'fits' action MEMPLAN_PLANS=runs/open.plan.json MEMPLAN_GPU='H100 80GB HBM3'
expect 'action: capacity' 3 'does not fit' action MEMPLAN_PLANS=runs/good.plan.json MEMPLAN_CAPACITY=1GiB
expect 'action: options' 3 'does not fit' action MEMPLAN_PLANS=runs/good.plan.json \
    MEMPLAN_OPTIONS='--set training.sequence_length=8192 --set "name=it'\''s $(touch ran) $HOME"'
expect 'action: options are not run' 1 '' test -e ran
expect 'action: plans are not run' 2 'no such file' action MEMPLAN_PLANS='$(touch${IFS}ran);`id`'
expect 'action: no plan' 2 '::error::no plan' action MEMPLAN_PLANS=' '
expect 'action: a missing one' 2 '::error file=none.plan.json::memplan: invalid' action MEMPLAN_PLANS=none.plan.json
echo "1..$n"
exit "$failed"
