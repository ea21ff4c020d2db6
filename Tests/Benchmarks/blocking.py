"""Latency of small hits beside operations that take long.

Cistern runs on core 0 with one loop. The probe, the clients that start the operations and their origin share core 1; the probe has the
highest priority that is permitted. It requests a small hit every two milliseconds over one connection. The case `disk` needs root and a
control group (version 1 or 2) with a memory limit, and is omitted otherwise.
"""
import gzip
import http.client
import http.server
import json
import os
import random
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

LIMIT_MS = 5.0
BIG = 8 << 20
ITEM = 64 << 10
GROUP_BYTES = 128 << 20
PATIENCE = 60
CASES = ["json", "post", "gzip", "coding", "arrays", "lists", "metrics", "entries"]


def big_json(count=BIG):
    piece = json.dumps({"id": 1, "name": "n" * 40, "tags": ["a", "b"], "n": 1.5e3})
    return ("{\"id\":1,\"all\":[" + ",".join([piece] * (count // (len(piece) + 1))) + "]}").encode()


def nested(count=64 << 10):
    return b"[" + b",".join([b"[[[[[[[[0]]]]]]]]"] * (count // 18)) + b"]"


LISTS = {
    "cdn": ("CDN-Cache-Control", ",".join(f"k{n}" for n in range(4000))),
    "search": ("No-Vary-Search", "params=(" + " ".join(f'"k{n}"' for n in range(4000)) + ")"),
    "groups": ("Cache-Groups", ",".join(f'"k{n}"' for n in range(4000))),
    "vary": ("Vary", ",".join(f"k{n}" for n in range(4000))),
    "control": ("Cache-Control", "max-age=60," + ",".join(f"k{n}" for n in range(6000))),
    "connection": ("Connection", ",".join(f"k{n}" for n in range(6000))),
}
PRESENTED = {
    "Accept-Encoding": ",".join(["a"] * 12000), "If-None-Match": ",".join(['"a"'] * 7000), "Accept-Language": ",".join(["aa;q=0.5"] * 3000),
    "Cache-Control": ",".join(["a"] * 12000), "Connection": ",".join(["a"] * 12000), "Via": "(" * 30000, "Accept": ",".join(["a"] * 12000),
}


class Origin(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"
    big = big_json()
    long = big_json(900 << 10)
    packed = gzip.compress(big, 1)
    arrays = nested()

    def log_message(self, *ignored):
        pass

    def answer(self, content, *fields):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        kind = self.path.split("/")[1].split("?")[0]
        fresh = ("Cache-Control", "max-age=36000")
        if kind in ("must", "big"):
            self.answer(self.big, fresh)
        elif kind == "gzip":
            self.answer(self.packed, fresh, ("Content-Encoding", "gzip"))
        elif kind == "long":
            self.answer(self.long, fresh)
        elif kind == "arrays":
            self.answer(self.arrays, fresh)
        elif kind == "item":
            self.answer(json.dumps({"path": self.path, "text": "x" * ITEM}).encode(), fresh)
        elif kind in LISTS:
            self.answer(b'{"id":1}', *([] if kind == "control" else [fresh]), LISTS[kind])
        else:
            self.answer(b'{"id":1}', fresh)

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        while length > 0:
            length -= len(self.rfile.read(min(length, 65536)))
        self.answer(b'{"id":1}', ("Cache-Control", "max-age=36000"))


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


PROBE = r"""
import os, socket, sys, time
port, seconds = int(sys.argv[1]), float(sys.argv[2])
try: os.nice(-20)
except OSError: pass
one = socket.create_connection(("127.0.0.1", port)); one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []; end = time.monotonic() + seconds
while time.monotonic() < end:
    began = time.monotonic()
    one.sendall(b"GET /small HTTP/1.1\r\nHost: bench\r\n\r\n")
    answer = one.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200"), answer[:100]
    times.append(time.monotonic() - began)
    time.sleep(0.002)
times.sort()
print(len(times), times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3, times[-1] * 1e3)
"""


class Blocking:
    def __init__(self, servers, report):
        self.servers, self.report, self.options = servers, report, servers.options
        self.origin = Server(("127.0.0.1", 0), Origin)
        self.cases = {
            "json": ("8 MiB of JSON on a route with must_have", self.get(lambda n: f"/must/{n}")),
            "post": ("a read-only POST of 8 MiB", self.post),
            "gzip": ("8 MiB of JSON with gzip", self.get(lambda n: f"/gzip/{n}")),
            "coding": ("hits of 900 KiB with gzip by 8 clients", self.coding, 8),
            "arrays": ("64 KiB of nested arrays", self.get(lambda n: f"/arrays/{n}")),
            "lists": ("the longest permitted fields", self.lists),
            "metrics": ("the metrics page with 1,000 routes", self.get(lambda n: "/metrics")),
            "entries": ("listing a store of 20,000", self.admin),
        }

    def settings(self):
        routes = "".join(f"  - {{name: r{n}, path: /r{n}/**}}\n" for n in range(997))
        path = Path(self.servers.directory) / "blocking.yaml"
        path.write_text(
            "routes:\n  - {name: must, path: /must/**, good: {must_have: [/id, /all]}}\n"
            "  - {name: read, path: /read/**, methods: [POST], content_limit: 16MiB}\n" + routes)
        return path

    def start(self, group=None):
        servers = self.servers
        command = [*self.options.command, "serve", "--config", str(self.settings()), "--upstream",
                   f"http://127.0.0.1:{self.origin.server_address[1]}", "--listen", f"127.0.0.1:{servers.port['blocking']}", "--cache-dir",
                   f"{servers.directory}/blocking", "--cache-size", "1100MiB"]
        if group:
            # The shell enters the group and becomes the program.
            command = ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *command]
        self.process = servers.start("blocking", 0, command)
        self.connect().close()

    def connect(self):
        end = time.time() + PATIENCE
        while True:
            try:
                one = http.client.HTTPConnection("127.0.0.1", self.servers.port['blocking'], timeout=PATIENCE)
                one.request("GET", "/small")
                one.getresponse().read()
                return one
            except OSError:
                if self.process.child.poll() is not None or time.time() > end:
                    raise SystemExit("cistern does not answer: " + Path(self.process.log.name).read_text()[-1000:])
                time.sleep(0.05)

    def probe(self):
        # One second has 500 probes: too few for a 99th percentile.
        command = ["taskset", "-c", "1", sys.executable, "-c", PROBE, str(self.servers.port["blocking"]), str(max(2, self.options.seconds))]
        out = subprocess.run(command, capture_output=True, text=True)
        if out.returncode != 0:
            raise SystemExit(out.stderr)
        return [float(word) for word in out.stdout.split()]

    # Each makes a client that is called with a growing number until the probe has ended.

    def get(self, target):
        def client():
            one = self.connect()

            def step(number):
                one.request("GET", target(number))
                one.getresponse().read()
            return step
        return client

    def coding(self):
        one = self.connect()

        def step(number):
            one.request("GET", "/long/1", headers={"Accept-Encoding": "gzip"})
            one.getresponse().read()
        return step

    def post(self):
        one = self.connect()
        content = Origin.big

        def step(number):
            one.request("POST", f"/read/{number}", content, {"Content-Type": "application/json"})
            one.getresponse().read()
        return step

    def lists(self):
        one = self.connect()
        names = list(LISTS)

        def step(number):
            fields = dict([list(PRESENTED.items())[number % len(PRESENTED)]])
            one.request("GET", f"/{names[number % len(names)]}/{number}?" + "a&" * 4000, headers=fields)
            one.getresponse().read()
        return step

    def admin(self):
        def step(number):
            path = ["/-/entries?limit=1000", "/-/entries?prefix=/few/1", "/-/why?last=1000", "/-/stats"][number % 4]
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(f"{self.servers.directory}/blocking/admin.sock")
                one.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
                while one.recv(65536):
                    pass
        return step

    def fill(self, count, target):
        one = self.connect()
        for number in range(count):
            one.request("GET", target.format(number))
            one.getresponse().read()

    def beside(self, client, threads=2):
        over = threading.Event()
        done = [0]

        def run(first):
            step = client()
            number = first
            while not over.is_set():
                step(number)
                number += threads
                done[0] += 1
        workers = [threading.Thread(target=run, args=(first,), daemon=True) for first in range(threads)]
        for worker in workers:
            worker.start()
        time.sleep(0.5)
        result = self.probe()
        over.set()
        for worker in workers:
            worker.join(PATIENCE)
        return result, done[0]

    def run(self, names):
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        self.start()
        alone = self.probe()
        for name in names:
            if name == "disk":
                self.disk()
                continue
            title, client, *threads = self.cases[name]
            if name == "entries":
                self.fill(20_000, "/few/{}")
            self.row(title, self.beside(client, *threads)[0], alone)
        self.servers.stop(self.process)

    def row(self, title, result, alone):
        self.report.add(f"small hit beside {title}: additional p99", result[2] - alone[2], "ms", limits={None: LIMIT_MS},
                        note=f"alone {alone[2]:.2f} ms")

    # A store of 1 GiB, and memory for an eighth of it.

    def group(self):
        one, two = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
        name = f"cistern-bench-{os.getpid()}"
        try:
            if (one / "memory.limit_in_bytes").exists():
                group, limit = one / name, "memory.limit_in_bytes"
            else:
                group, limit = two / name, "memory.max"
            group.mkdir()
            (group / limit).write_text(str(GROUP_BYTES))
            return group
        except OSError as error:
            self.report.progress(f"disk is omitted, because a control group with a memory limit cannot be made: {error.strerror}")
            return None

    def disk(self):
        count = (1 << 30) // (ITEM + 300)
        self.fill(count, "/item/{}")
        group = self.group()
        if not group:
            return
        self.servers.stop(self.process)
        # Pages that are in memory now are not charged to the group.
        subprocess.run(["sync"])
        Path("/proc/sys/vm/drop_caches").write_text("3")
        self.start(group)
        alone = self.probe()
        result, _ = self.beside(self.get(lambda n: f"/item/{random.randrange(count)}"))
        self.row(f"hits of a store of {count * ITEM >> 20} MiB with {GROUP_BYTES >> 20} MiB of memory", result, alone)
        self.servers.stop(self.process)
        self.remove(group)
        self.start()

    @staticmethod
    def remove(group):
        for _ in range(50):
            try:
                return group.rmdir()
            except OSError:
                time.sleep(0.1)
