memplan help fields
memplan help fields | cmp - /dev/fd/3 3<<EOF && echo 'the same in --help=fields and list fields'
$(memplan --help=fields)
EOF
memplan list fields | cmp - /dev/fd/3 3<<EOF
$(memplan help fields)
EOF
