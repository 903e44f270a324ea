for command in estimate check exec review max min sweep calibrate pack probe replay import list read-log record history next schema completion help; do
    memplan $command --help
    echo
done
memplan check -h | head -n 1
memplan --help=check | head -n 1
memplan --help | head -n 1
memplan help nothing
