# Torn, changed and foreign lines are skipped and named; the next record starts on a line of its own.
same() { sed 's/[0-9]*-[0-9]*-[0-9]*T[0-9:.]*Z/TIME/g; s/record [0-9a-f]\{12\}/record ID/g; s/ [0-9a-f]\{12\}$/ ID/; s/recorded [0-9a-f]\{12\}/recorded ID/; s/on [^ ]*, TIME/on HOST, TIME/g; s/  [^ ]*  *record$/  HOST  record/; s/  [^ ]*  *ID$/  HOST  ID/'; }
cp "$GOLDEN/small.json" .
for seq in 4096 5120 6144; do
    memplan record --model small.json --seq $seq --oom --ledger l.jsonl | same
done
# the second line is changed, the third has no end
sed -i '2s/5120/1024/; 3s/.\{9\}$//' l.jsonl
printf '%s' "$(cat l.jsonl)" >t && mv t l.jsonl
memplan check small.json --ledger l.jsonl 2>&1 | same
memplan record --model small.json --seq 7168 --oom --ledger l.jsonl | same
printf '%s\n' '{"crc32":"00000000","record":{}}' 'nonsense' '' "$(printf '\033[31mred')" >>l.jsonl
memplan history --ledger l.jsonl 2>&1 | same
memplan history --ledger l.jsonl --json 2>/dev/null | grep -c '"reason"'
# a folder with things that are no files of ours
mkdir -p d/folder.jsonl && mkfifo d/fifo.jsonl && ln -s /etc/passwd d/link.jsonl && cp l.jsonl d/a.jsonl
echo notes >d/README
memplan history --ledger d --json | sed -n '/"skipped"/,$p' | grep -o '"file": .*\|"reason": .*'
