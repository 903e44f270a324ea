# What is no AdmissionReview has exit code 2 and one line.
review() {
    printf '%s' "$1" | memplan review 2>&1
    echo "code $?"
}
version='"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"'
review ''
review '{'
review '[]'
review '{"kind": "Status", "apiVersion": "v1"}'
review '{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "a"}}'
review "{$version}"
review "{$version, \"request\": {\"uid\": 7}}"
review "{$version, \"request\": {\"uid\": \"\"}}"
review "{$version, \"request\": {\"uid\": \"a\\u0000b\"}}"
review "{$version, \"request\": {\"uid\": \"$(printf '%0200d' 0)\"}}"
review "{$version, \"request\": {\"uid\": \"a\"}}"
review "{$version, \"request\": {\"uid\": \"a\", \"uid\": \"b\"}}"
review "{$version, \"request\": {\"uid\": \"a\", \"operation\": \"CREATE\"}}"
review "{$version, \"request\": {\"uid\": \"a\", \"operation\": \"CREATE\", \"object\": []}}"
review "{$version, \"request\": {\"uid\": \"a\", \"operation\": \"CONNECT\", \"object\": {}}}"
awk 'BEGIN { for (i = 0; i < 9000; i++) printf "{\"a\":" }' | memplan review
echo "code $?"
head -c 9000000 /dev/zero | memplan review
echo "code $?"
memplan review request.json
echo "code $?"
memplan review --timeout 0 <"$GOLDEN/../review/job-fits.json"
echo "code $?"
memplan review <"$GOLDEN/../review/job-fits.json" >/dev/full
