# What a hook may hand over: each plan has its one line, whatever stands beside it, the lines keep
# their order with the reasons, and the exit code is that of the worst.
cp "$GOLDEN/small.json" .
small=$(cat small.json)
: >empty.json
head -c 300 small.json >cut.json
cp small.json 'two
lines.json'
cp small.json "$(printf 'colour\033[31m.json')"
cp small.json -- -dash.json
mkdir folder
ln -s nothing dangling.json
printf '\000\377' >binary.json
check() {
    echo "== $*" | cat -v
    memplan check "$@" 2>&1
    echo "code $?"
}
check --seq 256 small.json empty.json cut.json folder dangling.json binary.json '' small.json
check --seq 256 'two
lines.json' colour*.json -- -dash.json
echo "$small" | check --seq 256 - small.json -
check --seq 256 -dash.json
check --seq 256 small.json --nonsense
check --capacity 1GiB small.json
check --gpu "H100 80GB HBM3" --capacity 1.5GiB small.json
check --capacity 1.5GiB --gpu "H100 80GB HBM3" small.json
check --capacity 12 --gpu "H100 80GB HBM3" small.json
check --seq 256 --capacity 80GiB "$GOLDEN/config.json" | sed "s|$GOLDEN/||"
memplan check --seq 256 small.json >/dev/full
echo "code $?"
