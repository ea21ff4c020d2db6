"""What codings cost. All contenders are one Cistern: the ratios say what a hit pays for being stored coded.

    bench.py --codings

- A hit of 10 KB that goes out with gzip, as it is stored, beside a hit of as many bytes without a coding (bar 1.00).
- The same for a client that takes no coding: decoded from memory, beside one that is stored without a coding (bar 1.05), and decoded for the
  first time: what that takes more, beside what zlib alone takes (bar 1.30).
"""
import gzip
import json
import os
import socket
import statistics
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFIGURATION = """
routes:
  - {name: plain, path: /plain/**, compress: off}
  - {name: short, path: /short/**, compress: off}
"""
ORIGIN = """
worker_processes 1; daemon off; master_process off; pid {dir}/codings.pid; error_log {dir}/codings.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s;
  server {{
    listen 127.0.0.1:{origin_codings} backlog=4096;
    root {dir}; default_type application/json; add_header Cache-Control "max-age=36000";
    location / {{ try_files /ten.json =404; }}
    location /short/ {{ try_files /short.json =404; }}
  }}
}}
"""
TEN = json.dumps([{"userId": number % 7, "id": number, "title": f"sunt aut facere {number * 7919 % 1000}",
                   "body": "quia et suscipit recusandae consequuntur " + str(number * 104729 % 9973)} for number in range(80)])


class Codings:
    def __init__(self, bench, free_port, wait_for):
        self.bench, self.free_port, self.wait_for = bench, free_port, wait_for
        self.options = bench.options

    def run(self):
        self.start()
        print(f"10 KB are {len(TEN):,} bytes, {len(self.coded):,} with gzip")
        few = {"COUNT": "100"}
        for prefix in ("/coded/", "/short/", "/plain/"):
            self.fill(prefix, 100)
        coded = self.compare({"coded": {"PREFIX": "/coded/", "CODING": "gzip", **few}, "as long": {"PREFIX": "/short/", **few}})
        self.show("10 KB as it is stored, with gzip, beside one of as many bytes", coded["coded"] / coded["as long"], 1.0, coded)
        decoded = self.compare({"decoded": {"PREFIX": "/coded/", **few}, "plain": {"PREFIX": "/plain/", **few}})
        self.show("10 KB for a client without gzip, again", decoded["decoded"] / decoded["plain"], 1.05, decoded)
        # So many that none is remembered when it comes again.
        many = {"COUNT": "20000", "NEXT": "1"}
        for prefix in ("/coded/", "/plain/"):
            self.fill(prefix, 20_000)
        first = self.compare({"decoded": {"PREFIX": "/coded/", **many}, "plain": {"PREFIX": "/plain/", **many}})
        first["zlib"] = self.bare()
        self.show("the same for the first time, what it takes more", (first["decoded"] - first["plain"]) / first["zlib"], 1.3, first)

    def show(self, what, ratio, bar, figures):
        details = ", ".join(f"{name} {figure:.2f} µs" for name, figure in figures.items())
        print(f"| {what} | {ratio:.2f} (bar {bar:.2f}) | {details} | {'reached' if ratio <= bar else 'missed'} |", flush=True)

    def start(self):
        bench, directory = self.bench, Path(self.bench.directory)
        self.coded = gzip.compress(TEN.encode(), 6)
        (directory / "ten.json").write_text(TEN)
        (directory / "ten.gz").write_bytes(self.coded)
        (directory / "short.json").write_text(json.dumps("x" * (len(self.coded) - 2)))
        (directory / "codings.yaml").write_text(CONFIGURATION)
        port = self.free_port()
        file = bench.configuration("codings.conf", ORIGIN, origin_codings=port)
        bench.start("origin-codings", 1, ["nginx", "-c", file, "-e", f"{directory}/nginx.log"])
        self.wait_for(port, "/coded/0")
        self.process = bench.start_cistern("codings", ["--config", f"{directory}/codings.yaml", "--set", "shards=1"], f"http://127.0.0.1:{port}")
        self.wait_for(bench.port, "/healthz")

    def fill(self, prefix, count, batch=50):
        """Asks for each of them once."""
        with socket.create_connection(("127.0.0.1", self.bench.port)) as connection:
            for first in range(0, count, batch):
                connection.sendall(b"".join(
                    f"GET {prefix}{number} HTTP/1.1\r\nHost: bench\r\n{self.fields()}\r\n".encode() for number in range(first, first + batch)))
                received = b""
                while received.count(b"HTTP/1.1 200 OK") < batch or not received.endswith((b"]", b'"', b"}")):
                    received += connection.recv(1 << 20)

    def fields(self):
        """More lines of each request."""
        return ""

    def wrk(self, environment):
        before = self.process.cpu()
        count, _ = self.bench.wrk(self.bench.port, "/", self.options.seconds, script="items.lua", environment={**os.environ, **environment})
        return (self.process.cpu() - before) / count * 1e6

    def compare(self, contenders):
        """CPU microseconds of a request, medians of interleaved rounds. What all of them ask for is stored before."""
        figures = {name: [] for name in contenders}
        for _ in range(self.options.rounds):
            for name, environment in contenders.items():
                figures[name].append(self.wrk(environment))
        return {name: statistics.median(values) for name, values in figures.items()}

    def bare(self):
        program = f"{self.bench.directory}/inflate"
        subprocess.run(["cc", "-O2", "-o", program, str(HERE / "inflate.c"), "-lz"], check=True)
        command = ["taskset", "-c", "0", program, f"{self.bench.directory}/ten.gz", "20000"]
        return statistics.median(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(5))
