#!/usr/bin/env python3
"""Holds Cistern's HTTP/2 against RFC 9113 and RFC 7541, section by section, from outside.

    http2.py [--cistern PATH] [--only SECTION] [--verbose]
    http2.py --connect HOST:PORT [--tls] [--path PATH]

Each case has a connection of its own: in clear by prior knowledge and over TLS, and for each of both a response that is stored and one that is passed
on. With --connect another server is asked, which must have a response with content for GET and POST. Ends with 1 where a case does not hold.
"""

import argparse
import http.server
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

try:
    import wire
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}: install it (Debian has it as the package python3-hpack)")
import frames  # noqa: F401
import requests  # noqa: F401
import states  # noqa: F401

HOST = "127.0.0.1"


class Server:
    """Whom the cases ask."""

    def __init__(self, sentence, address, is_tls, path="/", name="localhost"):
        self.sentence, self.address, self.is_tls, self.path, self.name = sentence, address, is_tls, path, name
        self.authority = f"{address[0]}:{address[1]}"


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def respond(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b'{"items":[1,2,3,4,5,6,7,8,9]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store" if self.path.startswith("/passed") else "max-age=600")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = respond

    def handle(self):
        try:
            super().handle()
        except ConnectionResetError:
            pass  # What a client cancels is cancelled here too.

    def log_message(self, *arguments):
        pass


class Cistern:
    """Both doors, in front of an origin."""

    def __init__(self, program):
        self.directory = tempfile.TemporaryDirectory(prefix="cistern-conformance-")
        self.origin = http.server.ThreadingHTTPServer((HOST, 0), Origin)
        self.origin.daemon_threads = True
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        self.clear, self.secured = (HOST, free_port()), (HOST, free_port())
        settings = Path(self.directory.name) / "cistern.yaml"
        settings.write_text(f"""upstream: {{url: "http://{HOST}:{self.origin.server_port}"}}
listen: [{{address: "{HOST}:{self.clear[1]}", h2c: true}}, "https://{HOST}:{self.secured[1]}"]
store: {{directory: "{self.directory.name}/store"}}
log: {{level: error}}
""")
        self.process = subprocess.Popen([program, "serve", "--config", settings, "--tls-self-signed"], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(self.secured, timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("Cistern does not start")

    def servers(self):
        for path, kept in (("/", "stored"), ("/passed", "passed on")):
            yield Server(f"in clear, {kept}", self.clear, False, path)
            yield Server(f"over TLS, {kept}", self.secured, True, path)

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.origin.shutdown()
        self.directory.cleanup()


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def run(server, function, begins):
    """What is wrong; None where the case holds."""
    connection = None
    try:
        connection = wire.Connection(server, begins=begins)
        function(connection)
        return None
    except wire.Wrong as wrong:
        return str(wrong)
    except (OSError, TimeoutError) as error:
        return f"{type(error).__name__} {error}"
    finally:
        if connection:
            connection.close()


def run_all(servers, options):
    held, broken = 0, 0
    for server in servers:
        for section, sentence, function, begins in wire.CASES:
            if options.only and not section.startswith(options.only):
                continue
            wrong = run(server, function, begins)
            held, broken = held + (wrong is None), broken + (wrong is not None)
            if wrong or options.verbose:
                print(f"{'WRONG' if wrong else 'ok   '} {server.sentence:20} §{section:10} {sentence}" + (f": {wrong}" if wrong else ""))
    print(f"{held} of {held + broken} hold ({len(wire.CASES)} cases)")
    return 1 if broken or not held else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--connect", metavar="HOST:PORT")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--path", default="/")
    parser.add_argument("--only", metavar="SECTION")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.connect:
        host, _, port = options.connect.rpartition(":")
        return run_all([Server(options.connect, (host, int(port)), options.tls, options.path, host)], options)
    cistern = Cistern(Path(options.cistern).resolve())
    try:
        return run_all(cistern.servers(), options)
    finally:
        cistern.stop()


if __name__ == "__main__":
    sys.exit(main())
