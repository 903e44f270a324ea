# The steps of one epoch at the proposed length, from the lengths of the samples.
export XDG_STATE_HOME="$PWD"
memplan next --model eagle3 --multiple-of 4096 --lengths "$GOLDEN/../../examples/chat-lengths.txt" --rule speculators
memplan next --model eagle3 --multiple-of 8192 --lengths "$GOLDEN/../../examples/chat-lengths.txt" --rule trl-bfd --json | grep -E 'steps_per|"value"'
memplan next --model eagle3 --rule speculators
memplan next --model eagle3 --lengths nothing
memplan next --model eagle3 --lengths nothing --rule speculators
memplan next --model eagle3 --field ttt_steps --lengths nothing --rule speculators
