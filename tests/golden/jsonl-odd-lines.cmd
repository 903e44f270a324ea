# Windows line ends and blank lines are no errors, a zero byte is one; text that is cut for a
# message stays UTF-8.
long=$(printf '\303\251%.0s' $(seq 200))
{
    tr -d '\n' <"$GOLDEN/small.json"
    printf '\r\n\r\n \t\r\n'
    printf '\0\0\n'
    printf '{"%s": 1}\n{"x%s": 1}\n' "$long" "$long"
    tr -d '\n' <"$GOLDEN/small.json"
    echo
} | memplan --jsonl --seq 512 --no-suggestions --set "id=\"$long\"" >lines
code=$?
sed 's/,"reason".*//' lines
iconv -f UTF-8 -t UTF-8 lines >/dev/null && echo 'all of it is UTF-8'
exit $code
