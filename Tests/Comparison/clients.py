#!/usr/bin/env python3
"""Asks Cistern with clients that people use - curl, Python's requests, Swift's URLSession - and checks what each of them gets.

    clients.py [--cistern PATH]

Each client asks for the same targets of an origin that comes and goes. Ends with 1 where one of them gets something else than it should.
"""
import argparse
import gzip
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import caches

HERE = Path(__file__).resolve().parent
USERS = '[{"id":1,"name":"Zoë"},{"id":2}]'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, body, *fields, status=200):
        data = body.encode()
        coded = "gzip" in (self.headers.get("Accept-Encoding") or "")
        if coded:
            data = gzip.compress(data)
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(data))), *fields):
            self.send_header(name, value)
        if coded:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_GET(self):
        if self.server.is_down:
            self.close_connection = True
        elif self.path.startswith("/fresh"):
            self.reply(USERS, ("Cache-Control", "max-age=60"))
        elif self.path.startswith("/session"):
            self.reply('{"cookie":"%s"}' % (self.headers.get("Cookie") or ""), ("Set-Cookie", "s=1"))
        else:
            self.reply(USERS)

    do_HEAD = do_GET

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.reply('{"got":%d}' % len(self.rfile.read(length)), status=201)

    def log_message(self, *arguments):
        pass


def curl(base, targets):
    out = []
    for target in targets:
        method, _, path = target.rpartition(":")
        command = ["curl", "-sS", "--compressed", "-D", "-", base + path]
        if method:
            command += ["-X", method, "-H", "Content-Type: application/json", "--data-binary", '{"a":1}']
        text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        head, _, body = text.partition("\r\n\r\n")
        status = next((line[14:] for line in head.split("\r\n") if line.lower().startswith("cache-status: ")), "-")
        out.append((head.split()[1], status, body))
    return out


def requests(base, targets):
    import requests as library
    session = library.Session()
    out = []
    for target in targets:
        method, _, path = target.rpartition(":")
        answer = session.request(method or "GET", base + path, json={"a": 1} if method else None, timeout=20)
        out.append((str(answer.status_code), answer.headers.get("Cache-Status", "-"), answer.content.decode()))
    return out


def urlsession(base, targets):
    text = subprocess.run([urlsession.program, base, *targets], capture_output=True, check=True).stdout.decode()
    return [tuple(line.split("\t", 2)) for line in text.splitlines()]


def check(name, client, base, server):
    """Targets, and what must come: status, a word of Cache-Status, content."""
    rounds = [
        (False, [(f"/users?by={name}&a=%20", "200", "uri-miss; stored", USERS), (f"/users?a=+&by={name}", "200", "fwd=stale", USERS),
                 (f"/fresh/{name}", "200", "stored", USERS), (f"/fresh/{name}", "200", "hit; ttl=", USERS),
                 ("POST:/users", "201", "fwd=method", None), (f"/session/{name}", "200", "", None), (f"/session/{name}", "200", "", None)]),
        (True, [(f"/users?by={name}&a=%20", "200", "hit; ttl=", USERS), (f"/never/{name}", "502", "", None)]),
    ]
    failed = 0
    for is_down, wanted in rounds:
        server.is_down = is_down
        for (target, status, word, content), got in zip(wanted, client(base, [row[0] for row in wanted])):
            is_right = got[0] == status and word in got[1] and (content is None or got[2] == content)
            failed += not is_right
            print(f"{'ok  ' if is_right else 'WRONG'} {name:10} {'down' if is_down else 'up  '} {target:32} {got[0]} {got[1]}"
                  + ("" if is_right else f" {got[2][:80]!r}"))
    server.is_down = False
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    options = parser.parse_args()
    options.cistern = str(Path(options.cistern).resolve())
    directory = tempfile.mkdtemp(prefix="cistern-clients-")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.is_down = True, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = caches.free_port()
    # Rows follow one another quickly while the origin is down: each client is to see its failure, not the memory of another's.
    child = subprocess.Popen([options.cistern, "serve", "--upstream", f"http://127.0.0.1:{server.server_port}", "--listen",
                              f"127.0.0.1:{port}", "--cache-dir", f"{directory}/store", "--log-level", "error", "--set",
                              "failure.threshold=1000"])
    try:
        clients = {"curl": curl, "requests": requests}
        if shutil.which("swiftc"):
            urlsession.program = f"{directory}/session"
            subprocess.run(["swiftc", str(HERE / "session.swift"), "-o", urlsession.program], check=True)
            clients["URLSession"] = urlsession
        time.sleep(0.5)
        failed = sum(check(name, client, f"http://127.0.0.1:{port}", server) for name, client in clients.items())
    finally:
        child.terminate()
        child.wait()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
