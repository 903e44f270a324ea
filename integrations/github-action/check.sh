#!/bin/bash
# SPDX-License-Identifier: MIT
# One step of a workflow: `memplan check`, its lines as annotations of the files and as a summary.
# Inputs come as MEMPLAN_*, so that no input is ever a part of this text.
set -uo pipefail
arguments=()
[ -z "${MEMPLAN_GPU:-}" ] || arguments+=(--gpu "$MEMPLAN_GPU")
[ -z "${MEMPLAN_CAPACITY:-}" ] || arguments+=(--capacity "$MEMPLAN_CAPACITY")
# Options in quotes, as in a shell, but nothing in them is run.
if [ -n "${MEMPLAN_OPTIONS:-}" ]; then
    options=$(xargs printf '%s\n' <<<"$MEMPLAN_OPTIONS") || exit 2
    mapfile -t -O ${#arguments[@]} arguments <<<"$options"
fi
shopt -s globstar nullglob
plans=()
while read -r -a words; do
    for word in ${words[@]+"${words[@]}"}; do
        # shellcheck disable=SC2206 # a word may be a pattern
        found=($word)
        plans+=("${found[@]:-$word}")
    done
done <<<"${MEMPLAN_PLANS:-}"
[ ${#plans[@]} -gt 0 ] || {
    echo "::error::no plan to check"
    exit 2
}

code=0
lines=$(memplan check ${arguments[@]+"${arguments[@]}"} -- "${plans[@]}") || code=$?
[ -z "$lines" ] || echo "$lines"
[ -z "${GITHUB_OUTPUT:-}" ] || echo "code=$code" >>"$GITHUB_OUTPUT"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    # Indented, it is shown as it stands whatever a name holds.
    sed 's/^/    /' <<<"$lines" >>"$GITHUB_STEP_SUMMARY"
fi

# escape TEXT: as a workflow command has it; more of a property than of a message.
escape() {
    local text=${1//'%'/%25}
    text=${text//$'\r'/%0D}
    text=${text//$'\n'/%0A}
    text=${text//:/%3A}
    echo "${text//,/%2C}"
}
n=0
while read -r line; do
    plan=${plans[n]:-}
    n=$((n + 1))
    case $line in
    fits*) ;;
    'does not fit'* | invalid* | failed*) echo "::error file=$(escape "$plan")::memplan: ${line//'%'/%25}" ;;
    *) echo "::warning file=$(escape "$plan")::memplan: ${line//'%'/%25}" ;;
    esac
done <<<"$lines"

case " 1 3 ${MEMPLAN_REFUSE-2 4 5} " in
*" $code "*) exit "$code" ;;
esac
exit 0
