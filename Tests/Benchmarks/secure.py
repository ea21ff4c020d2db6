"""Over TLS: hits on HTTP/1.1 and HTTP/2, handshakes, and what idle connections take of memory; beside nginx, HAProxy and a bare loop in C
(floor_tls.c), which sends the same bytes in the same records.

    bench.py --only tls_hit,h2_hit,handshakes,idle_tls

Bars: what TLS adds to a clear hit at most 1.1 of what it adds to the bare loop; a hit over HTTP/2 and TLS, 100 streams at once on each of four
connections, at most 1.3 of the bare loop; both at most 0.85 of nginx. At least 0.95 of nginx's handshakes with a P-256 key in a second of one core,
full ones and resumed ones. 5,000 idle connections at most 20 KiB each with HTTP/1.1, 40 KiB with HTTP/2.
"""
import re
import socket
import ssl
import statistics
import subprocess
import time
from pathlib import Path

import http2

HERE = Path(__file__).resolve().parent
CASES = ["tls_hit", "h2_hit", "handshakes", "idle_tls"]
IDLE = 5_000
H2LOAD = ["-c", "4", "-m", "100"]
# Handshakes that are under way at once.
AT_ONCE = 32

CONFIGURATION = """
listen: ["127.0.0.1:{clear}", "https://127.0.0.1:{tls}"]
tls: {{certificates: [{{certificate: {dir}/server.pem, key: {dir}/server.key}}]}}
"""
NGINX = """
worker_processes 1; daemon off; master_process off; pid {dir}/secure.pid; error_log {dir}/secure.log crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
  proxy_cache_path {dir}/secure-cache keys_zone=one:64m max_size=1g;
  ssl_certificate {dir}/server.pem; ssl_certificate_key {dir}/server.key; ssl_protocols TLSv1.2 TLSv1.3;
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {{
    listen 127.0.0.1:{clear} backlog=4096; listen 127.0.0.1:{tls} ssl backlog=4096; listen 127.0.0.1:{h2} ssl http2 backlog=4096;
    location / {{ proxy_cache one; proxy_pass http://127.0.0.1:{origin}; }}
  }}
}}
"""
HAPROXY = """
global
  maxconn 8192
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
cache bench
  total-max-size 64
  max-age 3600
frontend front
  bind 127.0.0.1:{clear}
  bind 127.0.0.1:{tls} ssl crt {dir}/server.both alpn h2,http/1.1
  http-request cache-use bench
  http-response cache-store bench
  default_backend back
backend back
  server origin 127.0.0.1:{origin}
"""


class Secure:
    def __init__(self, bench, free_port, wait_for):
        self.bench, self.options, self.directory, self.wait_for = bench, bench.options, bench.directory, wait_for
        self.ports = {name: {kind: free_port() for kind in ("clear", "tls", "h2")} for name in ("cistern", "nginx", "haproxy", "floor")}
        # Who offers both on one port.
        for name in ("cistern", "haproxy", "floor"):
            self.ports[name]["h2"] = self.ports[name]["tls"]

    # Who is measured

    def run(self, wanted):
        self.start()
        print("\n| over TLS | cistern | beside | bars |\n|---|---|---|---|")
        for name in wanted:
            getattr(self, name)()
        for process in self.processes.values():
            process.stop()

    def start(self):
        self.processes = {}
        for name in ("cistern", "nginx", "haproxy", "floor"):
            self.start_one(name)

    def start_one(self, name):
        self.processes[name] = self.bench.start(f"secure-{name}", 0, getattr(self, name)(self.ports[name]))
        self.wait_for(self.ports[name]["clear"], "/hit")

    def write(self, file, text, ports):
        path = Path(self.directory) / file
        path.write_text(text.format(dir=self.directory, origin=self.bench.origin_port, **ports))
        return str(path)

    def cistern(self, ports):
        return [*self.options.command, "serve", "--upstream", f"http://127.0.0.1:{self.bench.origin_port}", "--config",
                self.write("secure.yaml", CONFIGURATION, ports), "--cache-dir", f"{self.directory}/secure", "--set", "shards=1"]

    def nginx(self, ports):
        return ["nginx", "-c", self.write("secure.conf", NGINX, ports), "-e", f"{self.directory}/nginx.log"]

    def haproxy(self, ports):
        both = [(Path(self.directory) / f"server.{kind}").read_text() for kind in ("pem", "key")]
        (Path(self.directory) / "server.both").write_text("".join(both))
        return ["haproxy", "-db", "-f", self.write("secure.haproxy", HAPROXY, ports)]

    def floor(self, ports):
        """It sends what Cistern sends."""
        (Path(self.directory) / "response").write_bytes(self.hit(self.ports["cistern"]["tls"]))
        program = self.compile("floor_tls", "-lssl", "-lcrypto", "-lnghttp2")
        return [program, str(ports["clear"]), str(ports["tls"]), f"{self.directory}/response", f"{self.directory}/server.pem", f"{self.directory}/server.key"]

    def compile(self, name, *libraries):
        program = f"{self.directory}/{name}"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", program, str(HERE / f"{name}.c"), *libraries], check=True)
        return program

    def hit(self, port):
        """All bytes of a hit over TLS with HTTP/1.1, the second time that it is asked for."""
        with self.connect(port, self.context("http/1.1")) as client:
            for _ in range(2):
                client.sendall(b"GET /hit HTTP/1.1\r\nHost: localhost\r\n\r\n")
                received = b""
                while b"\r\n\r\n" not in received or len(received.split(b"\r\n\r\n", 1)[1]) < 1024:
                    received += client.recv(65_536)
            return received

    @staticmethod
    def context(protocol):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([protocol])
        return context

    @staticmethod
    def connect(port, context):
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port)))

    # Hits

    def rounds(self, contenders, measure):
        """Medians of interleaved rounds, in microseconds of CPU: {contender: figure}."""
        figures = {one: [] for one in contenders}
        for number in range(self.options.rounds + 1):
            for one in contenders:
                figure = measure(*one)
                # What comes first fills stores and memos.
                if number > 0:
                    figures[one].append(figure)
        return {one: statistics.median(values) for one, values in figures.items()}

    def wrk(self, name, kind):
        process, scheme = self.processes[name], "http" if kind == "clear" else "https"
        before = process.cpu()
        out = subprocess.run(
            ["taskset", "-c", "1", "wrk", "-t1", "-c64", f"-d{self.options.seconds}s", f"{scheme}://127.0.0.1:{self.ports[name][kind]}/hit"],
            capture_output=True, text=True, check=True).stdout
        self.judge(out, name)
        return (process.cpu() - before) / int(re.search(r"(\d+) requests in", out)[1]) * 1e6

    @staticmethod
    def judge(out, name):
        bad = re.search(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", out)
        if bad:
            raise SystemExit(f"{name}: {bad[0]}")

    def h2load(self, name, kind):
        process = self.processes[name]
        before = process.cpu()
        scheme = "http" if kind == "clear" else "https"
        out = subprocess.run(
            ["taskset", "-c", "1", "h2load", "-D", str(self.options.seconds), *H2LOAD, f"{scheme}://localhost:{self.ports[name][kind]}/hit"],
            capture_output=True, text=True, check=True, timeout=120).stdout
        good, bad = int(re.search(r"status codes: (\d+) 2xx", out)[1]), re.search(r"(\d+) failed, (\d+) errored", out)
        if "protocol: h2" not in out or good == 0 or bad[1] != "0":
            raise SystemExit(f"{name}: not all was good\n{out}")
        return (process.cpu() - before) / good * 1e6

    def tls_hit(self):
        contenders = [(name, kind) for name in self.processes for kind in ("clear", "tls")]
        cpu = self.rounds(contenders, self.wrk)
        added = {name: cpu[name, "tls"] - cpu[name, "clear"] for name in self.processes}
        self.row("hit, 1 KB, HTTP/1.1, 64 connections", {name: cpu[name, "tls"] for name in self.processes}, {"nginx": 0.85}, " µs")
        self.row("what TLS adds to a clear hit", added, {"floor": 1.1}, " µs")

    def h2_hit(self):
        cpu = self.rounds([(name, "h2") for name in self.processes], self.h2load)
        self.row("hit, 1 KB, HTTP/2, 4 connections with 100 streams", {name: cpu[name, "h2"] for name in self.processes}, {"floor": 1.3, "nginx": 0.85}, " µs")

    # Handshakes

    def handshakes(self):
        program = self.compile("handshakes", "-lssl", "-lcrypto")
        names = ["cistern", "nginx", "haproxy", "floor"]
        for kind in ("full", "resumed"):
            rates = {}

            def measure(name, kind):
                process = self.processes[name]
                before = process.cpu()
                command = ["taskset", "-c", "1", program, str(self.ports[name]["tls"]), str(AT_ONCE), str(self.options.seconds), kind]
                out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                count, rate = re.match(r"(\d+) handshakes ([\d.]+)", out).groups()
                rates.setdefault(name, []).append(float(rate))
                return int(count) / (process.cpu() - before)

            figures = self.rounds([(name, kind) for name in names], measure)
            each = {name: figures[name, kind] for name in names}
            self.row(f"{kind} handshakes, P-256, in a second of a core", each, {"nginx": 0.95}, "", isLeast=True)
            print(f"|   in a second, of one client on the other core | {statistics.median(rates['cistern']):,.0f} | "
                  + ", ".join(f"{name} {statistics.median(rates[name]):,.0f}" for name in names[1:]) + " | |", flush=True)

    # Memory

    def idle_tls(self):
        for kind, protocol, bar in (("tls", "http/1.1", 20), ("h2", "h2", 40)):
            each = {name: self.idle(name, kind, protocol) for name in ("cistern", "nginx", "haproxy")}
            self.row(f"{IDLE:,} idle connections with {'HTTP/2' if kind == 'h2' else 'HTTP/1.1'}, each", each, {None: bar}, " KiB")

    def idle(self, name, kind, protocol):
        # What connections before these have left would be used again.
        self.processes[name].stop()
        self.start_one(name)
        process, port = self.processes[name], self.ports[name][kind]
        before = process.anonymous()
        clients, context = [], self.context(protocol)
        for _ in range(IDLE):
            client = self.connect(port, context)
            if protocol == "h2":
                http2.ask(client, b"/hit")
            else:
                client.sendall(b"GET /hit HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.recv(65_536)
            clients.append(client)
        time.sleep(3)
        each = (process.anonymous() - before) / IDLE / 1024
        for client in clients:
            client.close()
        time.sleep(1)
        return each

    # What is told

    def row(self, title, figures, bars, unit, isLeast=False):
        """- bars: {other: ratio}, or {None: figure}."""
        own, notes, missed = figures["cistern"], [], []
        for name, figure in figures.items():
            if name == "cistern":
                continue
            bar = bars.get(name)
            notes.append(f"{name} {figure:,.{self.places(figure)}f}{unit}: {own / figure:.2f}" + (f" (bar {bar})" if bar else ""))
            if bar and (own / figure < bar if isLeast else own / figure > bar):
                missed.append(name)
        if None in bars:
            notes.append(f"bar {bars[None]}{unit}")
            if own > bars[None]:
                missed.append("the bar")
        print(f"| {title} | {own:,.{self.places(own)}f}{unit} | {'; '.join(notes)} | {'missed: ' + ', '.join(missed) if missed else 'reached'} |", flush=True)

    @staticmethod
    def places(figure):
        return 0 if figure >= 1000 else 1
