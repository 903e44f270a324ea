# SPDX-License-Identifier: MIT
# Each line becomes a C string and a comma.
s/[\\"]/\\&/g
s/.*/"&",/
