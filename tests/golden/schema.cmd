memplan schema >schema
code=$?
head -n 20 schema
exit $code
