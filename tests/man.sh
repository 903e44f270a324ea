#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages are well-formed mdoc, and what they refer to exists. usage: man.sh PAGE...
set -u
export LC_ALL=C
command -v mandoc >/dev/null 2>&1 || {
    echo "mandoc is not installed"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for page in "$@"; do
    mkdir -p "$work/man${page##*.}"
    cp "$page" "$work/man${page##*.}/"
done
cd "$work" || exit 1
# Lines of this project are up to 100 columns wide, mandoc's style is 80; and it looks for other pages
# in the system's folders only.
mandoc -T lint man*/* 2>&1 |
    grep -v -e 'input text line longer than 80 bytes' -e 'referenced manual not found' >complaints
sed -n 's,^\.Xr \([^ ]*\) \([0-9]\).*,man\2/\1.\2,p' man*/* | sort -u | while read -r page; do
    [ -f "$page" ] || echo "$page is referred to, and does not exist"
done >>complaints
cat complaints
[ ! -s complaints ] || exit 1
back=$(printf '\b')
for page in man*/*; do
    # What was understood: the first line has the name, nothing is left of the markup.
    mandoc -T ascii "$page" | sed "s/.$back//g" >text || exit 1
    grep -q "^$(basename "${page%.*}" | tr '[:lower:]' '[:upper:]')(" text || {
        echo "$page: no heading"
        exit 1
    }
done
