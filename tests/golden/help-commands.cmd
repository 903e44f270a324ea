for command in estimate check exec max min sweep probe replay list read-log record history next schema help; do
for command in estimate check exec pack probe replay list read-log schema help; do
    memplan $command --help
    echo
done
memplan check -h | head -n 1
memplan --help=check | head -n 1
memplan --help | head -n 1
memplan help nothing
