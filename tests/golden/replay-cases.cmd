# Recorded cases through standard input: the answers of PyTorch's own allocator, field by field.
memplan replay --jsonl <"$GOLDEN/replay/cases.jsonl" | diff - "$GOLDEN/replay/results.jsonl" && echo same
