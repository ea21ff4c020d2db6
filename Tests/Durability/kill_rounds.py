#!/usr/bin/env python3
"""Kills Cistern (SIGKILL) while it stores, again and again, and checks what it serves afterwards.

    kill_rounds.py [--cistern PATH] [--rounds N] [--seed N]

In each round clients fetch paths through the proxy; at a random moment the proxy is killed and the upstream goes down; the proxy
is started again on the same directory and every path fetched so far is asked for. What is served must be exact to the byte; what
is not must be a 502, 503 or 504. Then everything goes up again for the next round. Exits with 1 at the first wrong byte.
"""
import argparse
import hashlib
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def body_of(path):
    """The one right content of a path: JSON of 100 bytes to 60 KB, made from the path itself."""
    digest = hashlib.sha256(path.encode()).hexdigest()
    size = 100 + int(digest[:4], 16) % (60_000 if digest[5] in "01" else 2_000)
    return ('{"path":"%s","text":"%s"}' % (path, (digest * (size // 64 + 1))[:size])).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and content in one packet: else each answer waits for an acknowledgement that is delayed.
    wbufsize = 1 << 20

    def do_GET(self):
        self.answer(body_of(self.path))

    def answer(self, body, fields={}):
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", **fields, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """The proxy is killed all the time: connections that break are no news."""


class Origin:
    def __init__(self, handler):
        self.handler = handler
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.up()

    def up(self):
        self.server = Server(("127.0.0.1", self.port), self.handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def down(self):
        self.server.shutdown()
        self.server.server_close()


class Rounds:
    handler = Handler

    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.origin = Origin(self.handler)
        self.directory = tempfile.mkdtemp(prefix="cistern-kill-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.asked = []
        self.served = self.missing = 0

    def start(self):
        command = [self.options.cistern, "serve", "--upstream", f"http://127.0.0.1:{self.origin.port}", "--listen", f"127.0.0.1:{self.port}",
                   "--cache-dir", self.directory, "--cache-size", self.options.size, "--log-level", "error"]
        self.child = subprocess.Popen(command)
        end = time.time() + 20
        while time.time() < end:
            try:
                if self.get("/healthz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.005)
            if self.child.poll() is not None:
                sys.exit(f"the proxy ended with {self.child.returncode} at its start")
        sys.exit("the proxy does not answer")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    @staticmethod
    def ask(connection, method, path, fields={}, body=None):
        connection.request(method, path, body=body, headers=fields)
        answer = connection.getresponse()
        return answer, answer.read()

    def get(self, path, connection=None):
        own = connection or self.connect()
        answer, content = self.ask(own, "GET", path)
        if not connection:
            own.close()
        return answer.status, content

    def load(self, number, worker):
        connection = self.connect()
        try:
            for i in range(10_000):
                path = f"/r/{number}/{worker}/{i}" if i % 3 else f"/shared/{i % 50}"
                self.asked.append(path)
                status, content = self.get(path, connection)
                if status == 200 and content != body_of(path):
                    self.wrong(path, content)
        except (OSError, http.client.HTTPException):
            pass

    def wrong(self, path, content):
        self.fail(f"WRONG BYTES for {path}: {content[:200]!r}")

    def fail(self, sentence):
        """From any thread."""
        print(sentence, flush=True)
        self.child.kill()
        os._exit(1)

    def kill(self):
        self.child.send_signal(signal.SIGKILL)

    def kill_under(self, workers, longest=None):
        """Kills the proxy at some moment of the workers' work, and starts it again, without its upstream.

        longest: seconds until then at most; None: a worker kills it.
        """
        for worker in workers:
            worker.start()
        if longest is not None:
            time.sleep(self.random.uniform(0.01, longest))
            self.kill()
        self.child.wait()
        for worker in workers:
            worker.join()
        self.origin.down()
        self.start()

    def end_round(self, how=signal.SIGKILL):
        self.child.send_signal(how)
        self.child.wait()
        self.origin.up()

    def one(self, number):
        self.start()
        self.kill_under([threading.Thread(target=self.load, args=(number, worker)) for worker in range(4)], 0.4)
        connection = self.connect()
        paths = list(dict.fromkeys(self.asked))
        for path in paths[-2000:]:
            status, content = self.get(path, connection)
            if status == 200:
                self.served += 1
                if content != body_of(path):
                    self.wrong(path, content)
            elif status in (502, 503, 504):
                self.missing += 1
            else:
                sys.exit(f"{path}: unexpected status {status}")
        connection.close()
        self.end_round(signal.SIGKILL if number % 2 else signal.SIGTERM)

    def report(self):
        return f"{self.served} answers served exact, {self.missing} not stored in time"

    def run(self):
        try:
            for number in range(self.options.rounds):
                self.one(number)
                if number % 20 == 19:
                    print(f"{number + 1} rounds: {self.report()}", flush=True)
            if not self.served:
                sys.exit(f"{self.report()}: the test shows nothing")
            print(f"{self.options.rounds} rounds passed: {self.report()}, 0 wrong")
        finally:
            if self.child.poll() is None:
                self.child.kill()
            shutil.rmtree(self.directory, ignore_errors=True)


def main(kind, description, rounds=100, seed=None, size="64MiB"):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32) if seed is None else seed)
    parser.add_argument("--size", default=size)
    options = parser.parse_args()
    options.cistern = str(Path(options.cistern).resolve())
    print(f"seed {options.seed}", flush=True)
    kind(options).run()


if __name__ == "__main__":
    main(Rounds, __doc__, rounds=200, seed=1)
