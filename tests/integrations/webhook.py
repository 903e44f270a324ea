#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The example webhook on 127.0.0.1, with a certificate made for the test: verdicts pass through, and
whatever goes wrong lets the object in. Prints TAP; exit code 77 without openssl.
usage: webhook.py MEMPLAN SOURCE_ROOT"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

memplan, root = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
here = root / "integrations" / "kubernetes"
failed = count = 0


def expect(name, holds, *seen):
    global failed, count
    count += 1
    failed += not holds
    print("ok" if holds else "not ok", count, "-", name)
    if not holds:
        print("#", *seen)


class Webhook:
    """The server with some command in memplan's place."""

    def __init__(self, work, command, *options, seconds=60):
        self.process = subprocess.Popen(
            [sys.executable, here / "webhook.py", f"--cert={work}/tls/tls.crt", f"--key={work}/tls/tls.key",
             "--address=127.0.0.1", "--port=0", f"--memplan={command}", f"--seconds={seconds}", "--", *options],
            stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, MEMPLAN_MODELS=str(root / "models"), XDG_STATE_HOME=work))
        self.port = int(self.process.stderr.readline().rsplit(" ", 1)[1])
        self.context = ssl.create_default_context(cafile=f"{work}/tls/ca.crt")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def post(self, body, path="/review"):
        """Status and text of an answer."""
        request = urllib.request.Request(f"https://localhost:{self.port}{path}", data=body,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def review(self, name):
        body = (root / "tests" / "review" / f"{name}.json").read_bytes()
        response = json.loads(self.post(body)[1])["response"]
        same = response["uid"] == json.loads(body)["request"]["uid"]
        return response["allowed"] if same else "another uid", response


def script(work, name, text):
    path = pathlib.Path(work, name)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def verdicts(work):
    with Webhook(work, memplan, "--timeout=60", "--gpu=T4") as webhook:
        allowed, response = webhook.review("job-mig-mixed")
        expect("what fits is allowed", allowed is True and "warnings" not in response, response)
        allowed, response = webhook.review("job-does-not-fit")
        expect("what does not is refused", allowed is False and "does not fit" in response["status"]["message"],
               response)
        allowed, response = webhook.review("job-no-card")
        expect("options reach memplan", allowed is False and "T4" in response["status"]["message"], response)
        allowed, response = webhook.review("plan-broken")
        expect("a bad plan is allowed with a warning", allowed is True and len(response["warnings"]) == 1, response)
        for body, name in ((b"", "nothing"), (b"{", "no JSON"), (b"[]", "a list"), (b'{"request": 1}', "no request"),
                           (b"[" * 100000, "deep JSON"), (b"\xff\xfe", "no text")):
            status, text = webhook.post(body)
            expect(f"400 for {name}", status == 400, status, text)
        status, _ = webhook.post(b'{"request": {"uid": "x"}}')
        expect("a review that memplan refuses to read is allowed", status == 200, status)
        expect("404 elsewhere", webhook.post(b"{}", "/etc/passwd")[0] == 404)
        url = f"https://localhost:{webhook.port}/healthz"
        with urllib.request.urlopen(url, context=webhook.context, timeout=20) as answer:
            expect("healthy", answer.read() == b"ok\n")


def example(work):
    """The plan of job.yaml, on its cards and at a length that they cannot hold."""
    text = (here / "job.yaml").read_text()
    plan = json.loads(re.search(r"memplan/plan: \|\n((?:      .*\n)+)", text).group(1))
    card = re.search(r"nvidia.com/gpu.product: (\S+)", text).group(1)
    pod = {"nodeSelector": {"nvidia.com/gpu.product": card},
           "containers": [{"name": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {
        "completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": {"spec": pod}}}
    with Webhook(work, memplan, "--timeout=60") as webhook:
        for length, fits in ((plan["training"]["sequence_length"], True), (131072, False)):
            plan["training"]["sequence_length"] = length
            job["metadata"] = {"name": "tune", "annotations": {"memplan/plan": json.dumps(plan)}}
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                    "request": {"uid": "1", "operation": "CREATE", "object": job}}
            response = json.loads(webhook.post(json.dumps(body).encode())[1])["response"]
            expect(f"job.yaml at {length} tokens", response["allowed"] is fits and "warnings" not in response, response)


def clients(work):
    """Clients that say nothing, or too much, stop nobody else."""
    with Webhook(work, memplan, "--timeout=60") as webhook:
        silent = [socket.create_connection(("127.0.0.1", webhook.port)) for _ in range(5)]
        plain = socket.create_connection(("127.0.0.1", webhook.port))
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        expect("silent and plain connections", webhook.review("job-fits")[0] is True)
        with webhook.context.wrap_socket(socket.create_connection(("127.0.0.1", webhook.port)),
                                         server_hostname="localhost") as large:
            large.sendall(b"POST /review HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
            expect("413 for what is too large", b" 413 " in large.recv(100))
        for one in silent + [plain]:
            one.close()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(webhook.review, ["job-does-not-fit", "job-fits"] * 6))
        # Too many at once are allowed; a refusal must never be another request's.
        expect("many at once", all(allowed in (True, i % 2 == 1) for i, (allowed, _) in enumerate(answers)), answers)


def failures(work):
    cases = {"missing": (f"{work}/nothing", "cannot be run"), "a crash": (script(work, "crash", "kill -SEGV $$"), "-11"),
             "garbage": (script(work, "garbage", "echo hello"), "cannot be run"),
             "another uid": (script(work, "uid", """echo '{"response": {"uid": "x", "allowed": false}}'"""), "code 0"),
             "exit code 3": (script(work, "three", "exit 3"), "exit code 3")}
    for name, (command, text) in cases.items():
        with Webhook(work, command) as webhook:
            allowed, response = webhook.review("job-does-not-fit")
            expect(f"memplan: {name}", allowed is True and text in response["warnings"][0], response)
    with Webhook(work, script(work, "slow", "exec sleep 30"), seconds=2) as webhook:
        start = time.monotonic()
        allowed, response = webhook.review("job-does-not-fit")
        seconds = time.monotonic() - start
        expect("memplan: too slow", allowed is True and "longer than 2 s" in response["warnings"][0], response)
        expect("answered within the API server's patience", seconds < 3, seconds)


def main():
    if not shutil.which("openssl"):
        print("1..0 # SKIP no openssl")
        return 77
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([here / "make-cert.sh", f"{work}/tls", "localhost", "127.0.0.1"], check=True)
        verdicts(work)
        example(work)
        clients(work)
        failures(work)
    print(f"1..{count}")
    return failed > 0


sys.exit(main())
