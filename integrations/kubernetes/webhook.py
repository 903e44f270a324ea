#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HTTPS server of a validating webhook: hands each AdmissionReview to `memplan review`.

It fails open: where memplan is missing, crashes, is too slow or too busy, the object is allowed with a
warning. usage: webhook.py --cert tls.crt --key tls.key [--port N] [-- OPTION OF memplan review...]
"""
import argparse
import json
import os
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_BYTES = 8 << 20  # as memplan review has it
AT_ONCE = 2 * (os.cpu_count() or 1)


def allow(review, reason):
    """The answer when there is no verdict."""
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
        "uid": review["request"]["uid"], "allowed": True, "warnings": [f"memplan: not judged: {reason}"]}})


def judge(body, review, command, seconds, slots):
    """What memplan answers to a review, or why it does not."""
    if not slots.acquire(timeout=seconds / 4):
        return allow(review, "too many reviews at once")
    try:
        done = subprocess.run(command, input=body, stdout=subprocess.PIPE, timeout=seconds)
        if done.returncode == 0 and json.loads(done.stdout)["response"]["uid"] == review["request"]["uid"]:
            return done.stdout.decode()
        return allow(review, f"exit code {done.returncode}")
    except subprocess.TimeoutExpired:
        return allow(review, f"it took longer than {seconds:g} s")
    except (OSError, ValueError, KeyError, TypeError):
        return allow(review, "memplan cannot be run")
    finally:
        slots.release()


class Handler(BaseHTTPRequestHandler):
    timeout = 5  # seconds for a request to arrive

    def do_GET(self):
        self.answer(200 if self.path == "/healthz" else 404, "ok\n" if self.path == "/healthz" else "")

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if self.path.split("?")[0] != "/review":
            return self.answer(404)
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return self.answer(413)
        body = self.rfile.read(int(length))
        try:
            review = json.loads(body)
            allow(review, "")
        except (ValueError, KeyError, TypeError, RecursionError):
            return self.answer(400, "expected an AdmissionReview\n")
        server = self.server
        self.answer(200, judge(body, review, server.command, server.seconds, server.slots), "application/json")

    def answer(self, code, text="", kind="text/plain"):
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    cert = key = context = read_at = None

    def load(self):
        """The certificate, and a new one as soon as it is there."""
        changed = os.stat(self.cert).st_mtime_ns
        if changed != self.read_at:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.cert, self.key)
            self.context, self.read_at = context, changed

    def get_request(self):
        """A connection; its handshake is made in its own thread, so that a slow client stops nobody."""
        connection, address = super().get_request()
        connection.settimeout(Handler.timeout)
        try:
            self.load()
        except OSError as error:
            print(f"webhook: going on with the certificate at hand: {error}", file=sys.stderr)
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request, client_address):
        print(f"webhook: {client_address[0]}: {sys.exc_info()[1]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--address", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8443)
    parser.add_argument("--memplan", default="memplan")
    # More than memplan takes by itself (2 s), less than the API server waits (3 s).
    parser.add_argument("--seconds", type=float, default=2.5, help="for one review (2.5)")
    parser.add_argument("options", nargs="*", help="options of memplan review, behind --")
    given = parser.parse_args()
    server = Server((given.address, given.port), Handler)
    server.cert, server.key = given.cert, given.key
    server.load()
    server.command = [given.memplan, "review", *given.options]
    server.seconds = given.seconds
    server.slots = threading.BoundedSemaphore(AT_ONCE)
    print(f"webhook: listening on port {server.server_address[1]}", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
