# Every option and every command of --help stands in the manual.
manual=$GOLDEN/../../cli/memplan.1
for command in estimate check exec review max min sweep calibrate pack probe replay import list read-log record history next schema completion help; do
    grep -q "^\.It Cm $command\$" "$manual" || echo "command $command is not in the manual"
    memplan $command --help | sed -n 's/^  \(-o, \)*--\([a-z-]*\).*/\2/p'
done | sort -u >options
grep -c . options
while read -r option; do
    grep -q "^\.It Fl -$option\( \|\$\)" "$manual" || echo "--$option is not in the manual"
done <options
