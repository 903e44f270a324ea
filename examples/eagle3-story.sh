#!/bin/sh
# SPDX-License-Identifier: MIT
# The starting case as its people lived it, with memplan in front of each launch: an EAGLE-3 drafter on
# four cards of 96 GB. They had read 28.5 GB at 4096 tokens and 39.8 GB at 8192, launched 32768, then
# 24576, and lost both; 16384 ran. Run from the project's root; the ledger goes to a folder of its own.
set -u
ledger=$(mktemp -d)
trap 'rm -rf "$ledger"' EXIT
say() { printf '\n$ %s\n' "$*"; }
memplan_() { say memplan "$@"; memplan "$@" --ledger "$ledger"; echo "(exit code $?)"; }

echo "Three lengths they wanted to launch, with the two readings that they had:"
memplan_ check --model eagle3 --seq 32768
memplan_ check --model eagle3 --seq 24576
memplan_ check --model eagle3 --seq 16384

echo
echo "Had they launched 32768 all the same, and written down what became of it:"
memplan_ record --model eagle3 --seq 32768 --oom 2>/dev/null | grep -v '^recorded'
memplan_ check --model eagle3 --seq 32768 2>&1 | sed 's/, on [^ ]*, 20.*Z.*//'

echo
echo "What to run next, and how many steps an epoch takes then; 35,446 at 4096 tokens:"
say memplan pack examples/chat-lengths.txt --rule speculators --world 4 --seq 4096,12288
memplan pack examples/chat-lengths.txt --rule speculators --world 4 --seq 4096,12288
memplan_ next --model eagle3 --lengths examples/chat-lengths.txt --rule speculators 2>&1 |
    sed 's/, on [^ ]*, 20.*Z.*/./'
