# The starting case, told as its people lived it: examples/eagle3-story.sh.
cd "$GOLDEN/../.." && sh examples/eagle3-story.sh
