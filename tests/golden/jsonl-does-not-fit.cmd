# 3 wins over 5 when every line is a valid plan; the last line has no newline.
{
    tr -d '\n' <"$GOLDEN/config.json"
    echo
    tr -d '\n' <"$GOLDEN/small.json"
} | memplan --jsonl --seq 65536 --no-suggestions >lines
code=$?
sed 's/.*\("verdict":"[a-z_]*"\).*/\1/' lines
exit $code
