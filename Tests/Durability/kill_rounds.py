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

    def do_GET(self):
        body = body_of(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
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
    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.up()

    def up(self):
        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def down(self):
        self.server.shutdown()
        self.server.server_close()


class Rounds:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.origin = Origin()
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

    def get(self, path, connection=None):
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        own.request("GET", path)
        answer = own.getresponse()
        content = answer.read()
        if not connection:
            own.close()
        return answer.status, content

    def load(self, number, worker):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
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
        print(f"WRONG BYTES for {path}: {content[:200]!r}", flush=True)
        self.child.kill()
        os._exit(1)

    def kill_under(self, workers, longest):
        """Kills the proxy at some moment of the workers' work, and starts it again, without its upstream."""
        for worker in workers:
            worker.start()
        time.sleep(self.random.uniform(0.01, longest))
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        for worker in workers:
            worker.join()
        self.origin.down()
        self.start()

    def one(self, number):
        self.start()
        self.kill_under([threading.Thread(target=self.load, args=(number, worker)) for worker in range(4)], 0.4)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
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
        self.child.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
        self.child.wait()
        self.origin.up()

    def run(self):
        try:
            for number in range(self.options.rounds):
                self.one(number)
                if number % 20 == 19:
                    print(f"{number + 1} rounds: {self.served} answers served exact, {self.missing} not stored in time", flush=True)
            if not self.served:
                sys.exit("nothing was ever served: the test shows nothing")
            print(f"{self.options.rounds} rounds passed: {self.served} exact, {self.missing} not stored, 0 wrong")
        finally:
            if self.child.poll() is None:
                self.child.kill()
            shutil.rmtree(self.directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", default="64MiB")
    options = parser.parse_args()
    options.cistern = str(Path(options.cistern).resolve())
    Rounds(options).run()


if __name__ == "__main__":
    main()
