#!/bin/sh
# SPDX-License-Identifier: MIT
# A certificate of the webhook's own, for a year: tls.crt and tls.key, and ca.crt, whose base64 is the
# caBundle of webhook.yaml. With cert-manager none of this is needed.
# usage: make-cert.sh FOLDER [HOST...]    (memplan-review.memplan.svc)
set -eu
[ $# -gt 0 ] || { echo "usage: make-cert.sh FOLDER [HOST...]" >&2; exit 2; }
folder=$1
shift
[ $# -gt 0 ] || set -- memplan-review.memplan.svc
names=
for host in "$@"; do
    case $host in
    *[!0-9.]*) names=$names,DNS:$host ;;
    *) names=$names,IP:$host ;;
    esac
done
umask 077
mkdir -p "$folder"
cd "$folder"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 \
    -keyout ca.key -out ca.crt -subj /CN=memplan-review-ca 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -keyout tls.key -out tls.csr -subj "/CN=$1" 2>/dev/null
echo "subjectAltName=${names#,}" >tls.ext
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile tls.ext \
    -out tls.crt 2>/dev/null
rm -f ca.key tls.csr tls.ext ca.srl
