memplan --jsonl </dev/null
