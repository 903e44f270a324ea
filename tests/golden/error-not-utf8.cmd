# UTF-16, as some editors write it; a zero byte; text that is not UTF-8.
iconv -f UTF-8 -t UTF-16 "$GOLDEN/small.json" >utf16.json
memplan --model utf16.json
printf '{"name": "a\0b"}' >zero.json
memplan --model zero.json
memplan --model "$GOLDEN/small.json" --set "name=$(printf '\377')"
