memplan read-log
echo "exit $?"
printf 'all is well\n' >quiet.log
memplan read-log quiet.log nothing.log .
echo "exit $?"
memplan read-log --json nothing.log
echo "exit $?"
memplan read-log quiet.log - <quiet.log
echo "exit $?"
memplan read-log --jason quiet.log
