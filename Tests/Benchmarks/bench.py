#!/usr/bin/env python3
"""Measures Cistern, as its package starts it, beside nginx's proxy_cache, HAProxy's cache and two bare loops in C, side by side.

    bench.py [--cistern PATH] [--rounds N] [--seconds S] [--only NAME,...] [--million] [--blocking] [--codings] [--identities]

All of them are pinned to core 0, wrk and the origin (nginx too) to core 1. Rounds are interleaved, so that a machine that
changes its speed changes it for all; what is printed are medians, and ratios of the medians. CPU is what the kernel booked
for a proxy's process (utime + stime in /proc), divided by the requests that wrk counted. Where the machine's own floor makes a
ratio to nginx impossible, 1.25 times the floor is the bar instead: both are printed.

Needs nginx, HAProxy, wrk and a C compiler. Everything runs on loopback, in a directory of its own that is removed at the end.
"""
import argparse
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import blocking
import codings
import http2
import identities
import secure
import shards

TICKS = os.sysconf("SC_CLK_TCK")
HERE = Path(__file__).resolve().parent
BODY_1K = '{"id":1,"text":"' + "x" * (1024 - 18) + '"}'

LARGE = '{"id":1,"text":"' + "x" * (100 * 1024 - 18) + '"}'


class Case:
    """What is asked for, and how much of the others' CPU a request may cost: {other: bar}."""

    def __init__(self, title, path, bars, script=None, environment=None):
        self.title, self.path, self.bars, self.script = title, path, bars, script
        self.environment = {**os.environ, **(environment or {})}


CASES = {
    "hit": Case("fresh hit, 1 KB, 64 connections", "/hit", {"nginx": 0.50, "haproxy": 0.70, "floor": 1.20}),
    "random": Case("100,000 stored responses at random", "/", {"nginx": 0.50, "haproxy": 0.70}, "random.lua"),
    "zipf": Case("the same by Zipf's law, asked for as apps do", "/", {"haproxy": 0.70}, "zipf.lua"),
    "mixed": Case("the same, one request in ten for a new target, stored", "/", {"haproxy": 0.85}, "zipf.lua", {"NEW": "10"}),
    "large": Case("fresh hit, 100 KB", "/large", {"nginx": 0.85}),
    "miss": Case("filling: 1 KB, each another target, stored", "/", {"nginx": 1.60, "haproxy": 1.40}, "distinct.lua"),
    "pass": Case("pass, 1 KB that may not be stored", "/pass", {"nginx": 1.15, "floor_pass": 1.25}),
    "tls": Case("pass over TLS, 1 KB that may not be stored, the certificate checked", "/pass", {"nginx": 1.25}),
    "http2_upstream": Case("the same over HTTP/2 (nginx asks in HTTP/1.1)", "/pass", {"nginx": 1.25}),
}
# Where one bar is enough: the machine's own floor decides where a ratio to nginx cannot be.
EITHER = {"pass"}
# Of requests a second to nginx's.
RATE_BARS = {"hit": 1.7}

ORIGIN = """
worker_processes 1; daemon off; master_process off; pid {dir}/origin.pid; error_log {dir}/origin.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; default_type application/json; keepalive_requests 100000000; keepalive_timeout 600s;
  server {{
    listen 127.0.0.1:{origin} backlog=4096;
    location / {{ add_header Cache-Control "max-age=36000"; return 200 '{body}'; }}
    location /pass {{ add_header Cache-Control "no-store"; return 200 '{body}'; }}
    location /large {{ add_header Cache-Control "max-age=36000"; alias {dir}/large.json; }}
    location /first {{ return 200 '{body}'; }}
  }}
  server {{
    listen 127.0.0.1:{origin_tls} ssl backlog=4096; listen 127.0.0.1:{origin_http2} ssl http2 backlog=4096;
    ssl_certificate {dir}/server.pem; ssl_certificate_key {dir}/server.key;
    location / {{ add_header Cache-Control "no-store"; return 200 '{body}'; }}
  }}
}}
"""

PEER = """
worker_processes 1; daemon off; master_process off; pid {dir}/peer.pid; error_log {dir}/peer.log crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 10000; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s;
  sendfile on; tcp_nopush on; proxy_buffer_size 16k; proxy_buffers 8 16k;
  proxy_cache_path {dir}/peer-cache levels=1:2 keys_zone=one:200m max_size=8g inactive=10h use_temp_path=off;
  upstream origin {{ server 127.0.0.1:{origin}; keepalive 128; keepalive_requests 100000000; }}
  upstream origin_tls {{ server 127.0.0.1:{origin_tls}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{peer} backlog=4096;
    proxy_http_version 1.1; proxy_set_header Connection "";
    location / {{ proxy_cache one; proxy_cache_use_stale error timeout http_500 http_502 http_503 http_504; proxy_pass http://origin; }}
  }}
  server {{
    listen 127.0.0.1:{peer_tls} backlog=4096;
    proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_ssl_verify on; proxy_ssl_trusted_certificate {dir}/server.pem; proxy_ssl_name localhost; proxy_ssl_protocols TLSv1.2 TLSv1.3;
    location / {{ proxy_cache one; proxy_pass https://origin_tls; }}
  }}
}}
"""

HAPROXY = """
global
  maxconn 8192
  nbthread {threads}
defaults
  mode http
  option http-keep-alive
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
cache bench
  total-max-size 1024
  max-object-size 262144
  max-age 3600
  process-vary on
frontend front
  bind 127.0.0.1:{haproxy}
  http-request cache-use bench
  http-response cache-store bench
  default_backend back
backend back
  http-reuse always
  server origin 127.0.0.1:{origin}
"""


def machine():
    """Its processor's name, and what runs it where it is a virtual one."""
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    product = Path("/sys/class/dmi/id/product_name")
    return ", ".join([model[1] if model else "unknown"] + ([product.read_text().strip()] if product.exists() else []))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, path="/", seconds=15):
    end = time.time() + seconds
    while time.time() < end:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).read()
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nothing answers on port {port}")


def as_packaged():
    """What the package's unit sets for the C library: Cistern is measured as it is installed, as nginx is."""
    unit = HERE.parent.parent / "Configuration/systemd/cistern.service"
    return re.findall(r"^Environment=(GLIBC_TUNABLES=\S+)$", unit.read_text(), re.MULTILINE)


class Process:
    """A pinned child and the CPU time it has used."""

    def __init__(self, name, core, command, directory):
        self.name = name
        self.log = open(Path(directory) / f"{name}.out", "ab")
        self.child = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=self.log, stderr=self.log)
        self.pid = self.child.pid

    def cpu(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self):
        """Resident bytes that are the process's own: what other processes share is not counted twice."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024

    def anonymous(self):
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", text)[1]) * 1024

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.log.close()


class Bench:
    def __init__(self, options):
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="cistern-bench-", dir=options.directory)
        self.origin_port, self.peer_port, self.port = free_port(), free_port(), free_port()
        self.origin_tls_port, self.origin_http2_port, self.peer_tls_port = free_port(), free_port(), free_port()
        self.haproxy_port, self.floor_ports = free_port(), [free_port(), free_port()]
        (Path(self.directory) / "large.json").write_text(LARGE)
        self.make_certificate()
        self.haproxy_two_port = free_port()
        self.running = []

    def start(self, name, core, command):
        process = Process(name, core, command, self.directory)
        self.running.append(process)
        return process

    def make_certificate(self):
        subprocess.run([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", f"{self.directory}/server.key", "-out", f"{self.directory}/server.pem"], check=True, capture_output=True)

    def start_origin(self):
        return self.start("origin", 1, self.nginx("origin.conf", ORIGIN))

    def configuration(self, file, text, **others):
        path = Path(self.directory) / file
        known = {"dir": self.directory, "origin": self.origin_port, "peer": self.peer_port, "origin_tls": self.origin_tls_port,
                 "origin_http2": self.origin_http2_port,
                 "peer_tls": self.peer_tls_port, "haproxy": self.haproxy_port, "threads": 1, "body": BODY_1K}
        path.write_text(text.format(**{**known, **others}))
        return str(path)

    def nginx(self, file, text):
        return ["nginx", "-c", self.configuration(file, text), "-e", f"{self.directory}/nginx.log"]

    def start_others(self, names):
        """Those that the wanted cases are measured beside: {name: (process, port)}."""
        others = {"nginx": (self.start("nginx", 0, self.nginx("peer.conf", PEER)), self.peer_port)}
        if "haproxy" in names:
            command = ["haproxy", "-db", "-f", self.configuration("haproxy.conf", HAPROXY)]
            others["haproxy"] = (self.start("haproxy", 0, command), self.haproxy_port)
        floor = f"{self.directory}/floor"
        if {"floor", "floor_pass"} & names:
            subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", floor, str(HERE / "floor.c")], check=True)
        for name, port, upstream in (("floor", self.floor_ports[0], []), ("floor_pass", self.floor_ports[1], [str(self.origin_port)])):
            if name in names:
                others[name] = (self.start(name, 0, [floor, str(port), str(len(BODY_1K)), *upstream]), port)
        for process, port in others.values():
            wait_for(port)
        return others

    def start_cistern(self, cache="cache", extra=(), upstream=None, cores=0):
        return self.start("cistern", cores, [
            *self.options.command, "serve", "--upstream", upstream or f"http://127.0.0.1:{self.origin_port}", "--listen", f"127.0.0.1:{self.port}",
            "--cache-dir", f"{self.directory}/{cache}", "--cache-size", "4GiB", *extra])

    def start_two_shards(self):
        """On both cores, in the place of the one that was measured until now."""
        self.cistern.stop()
        self.port = free_port()
        process = self.start_cistern("two", ["--set", "shards=2"], cores="0,1")
        wait_for(self.port)
        return process, self.port

    def start_two_threads(self):
        file = self.configuration("haproxy-two.conf", HAPROXY, threads=2, haproxy=self.haproxy_two_port)
        process = self.start("haproxy-two", "0,1", ["haproxy", "-db", "-f", file])
        wait_for(self.haproxy_two_port)
        return process, self.haproxy_two_port

    def close(self):
        for process in reversed(self.running):
            process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def wrk(self, port, path, seconds, connections=64, script=None, environment=None, cores="1", threads=1):
        command = ["taskset", "-c", cores, "wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--latency"]
        if script:
            command += ["-s", str(HERE / script)]
        command.append(f"http://127.0.0.1:{port}{path}")
        out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out) or re.search(r"Socket errors: (.*)", out)
        if bad:
            print(f"  ! {path}: {bad[0]}", file=sys.stderr)
        return int(re.search(r"(\d+) requests in", out)[1]), float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])

    def restart_for_tls(self, origin_port):
        """Both ask an upstream that speaks TLS, on kept connections, and check its certificate."""
        self.cistern.stop()
        self.port = free_port()
        self.cistern = self.start_cistern(
            "tls", ["--set", f"upstream.ca_file={self.directory}/server.pem"], f"https://127.0.0.1:{origin_port}")
        self.others["nginx"] = (self.others["nginx"][0], self.peer_tls_port)
        for port in (self.port, self.peer_tls_port):
            wait_for(port, "/pass")

    def compare(self, name):
        """Interleaved rounds of all; prints medians, ratios and bars."""
        case = CASES[name]
        contenders = {"cistern": (self.cistern, self.port), **{other: self.others[other] for other in case.bars}}
        cpu, rate = {one: [] for one in contenders}, {one: [] for one in contenders}
        for _ in range(self.options.rounds):
            for one, (process, port) in contenders.items():
                before = process.cpu()
                count, per_second = self.wrk(port, case.path, self.options.seconds, script=case.script, environment=case.environment)
                cpu[one].append((process.cpu() - before) / count * 1e6)
                rate[one].append(per_second)
        cpu, rate = ({one: statistics.median(values) for one, values in figures.items()} for figures in (cpu, rate))
        ratios = [f"{other} {cpu[other]:.1f} µs: {cpu['cistern'] / cpu[other]:.2f} (bar {bar:.2f})" for other, bar in case.bars.items()]
        rates = [f"{rate['cistern'] / rate[other]:.2f} × {other}" + (f" (bar {RATE_BARS[name]})" if other == "nginx" and name in RATE_BARS else "")
                 for other in case.bars]
        missed = [other for other, bar in case.bars.items() if cpu["cistern"] / cpu[other] > bar]
        if name in EITHER and len(missed) < len(case.bars):
            missed = []
        if name in RATE_BARS and rate["cistern"] / rate["nginx"] < RATE_BARS[name]:
            missed.append("requests a second")
        verdict = "missed: " + ", ".join(missed) if missed else "reached"
        print(f"| {case.title} | {cpu['cistern']:.1f} µs | {'; '.join(ratios)} | {rate['cistern']:,.0f}/s | {'; '.join(rates)} | {verdict} |", flush=True)

    def run(self):
        wanted = self.options.only.split(",") if self.options.only else [*CASES, "memory", "idle", *secure.CASES, "two"]
        cases = [name for name in CASES if name in wanted]
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        self.start_origin()
        wait_for(self.origin_port)
        self.others = self.start_others({other for name in cases for other in CASES[name].bars})
        self.cistern = self.start_cistern()
        wait_for(self.port)
        print(f"machine: {machine()}, {os.cpu_count()} cores, kernel {os.uname().release}; {self.options.rounds} rounds of {self.options.seconds} s\n")
        if "memory" in wanted:
            self.memory()
        if "idle" in wanted:
            self.idle_connections()
        if cases:
            print("\n| what | CPU of a request | beside | requests | beside | bars |\n|---|---|---|---|---|---|")
        if {"random", "zipf", "mixed"} & set(cases):
            for port in (self.port, self.peer_port, self.haproxy_port):
                self.fill(port, 100_000)
        for name in cases:
            if name in ("tls", "http2_upstream"):
                self.restart_for_tls(self.origin_tls_port if name == "tls" else self.origin_http2_port)
            self.compare(name)
        if set(secure.CASES) & set(wanted):
            secure.Secure(self, free_port, wait_for).run([name for name in secure.CASES if name in wanted])
        if "two" in wanted:
            shards.TwoShards(self).run()
        if self.options.million:
            self.million()

    def memory(self):
        size = os.path.getsize(self.options.cistern)
        print(f"binary {size / 1e6:.1f} MB (bar 20, stripped); resident, idle, empty cache {self.cistern.memory() / 2**20:.1f} MiB (bar 20)")

    def idle_connections(self, count=5000):
        before = self.cistern.anonymous()
        sockets = []
        request = b"GET /hit HTTP/1.1\r\nHost: bench\r\n\r\n"
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", self.port))
            one.sendall(request)
            sockets.append(one)
        for one in sockets:
            one.recv(8192)
        after = self.cistern.anonymous()
        print(f"{count} idle keep-alive connections: {(after - before) / count:.0f} B each (bar 1,024)")
        for one in sockets:
            one.close()

    def fill(self, port, count, batch=50):
        """Each of /items/0 … /items/count-1 once, so many at a time over one connection."""
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for first in range(0, count, batch):
                wanted = range(first, min(first + batch, count))
                connection.sendall(b"".join(b"GET /items/%d HTTP/1.1\r\nHost: bench\r\n\r\n" % number for number in wanted))
                received = b""
                while received.count(BODY_1K.encode()) < len(wanted):
                    more = connection.recv(1 << 20)
                    if not more:
                        raise SystemExit(f"port {port} closed the connection while it was filled")
                    received += more

    def million(self, count=1_000_000):
        process = self.start_million(count)
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics").read().decode()
        entries = int(float(re.search(r"^cistern_store_entries(?:{[^}]*})? (\S+)", text, re.M)[1]))
        process.stop()
        self.running = [one for one in self.running if one is not process]
        for one in self.running:
            if one.name == "origin":
                one.stop()
        for kind in ("after a clean stop", "after kill -9"):
            began = time.time()
            process = self.start_cistern("million")
            wait_for(self.port, "/items/4711")
            first = time.time() - began
            anonymous = process.anonymous()
            print(f"one million stored ({entries:,} entries): {kind}, start to first rescue {first:.2f} s (bar 1.0); "
                  f"anonymous memory {anonymous / 2**20:.0f} MiB, {(anonymous - self.empty) / max(1, entries):.0f} B an entry (bar 100)")
            process.child.kill() if kind == "after a clean stop" else process.stop()
            process.child.wait()

    def start_million(self, count):
        self.cistern.stop()
        self.port = free_port()
        process = self.start_cistern("million")
        wait_for(self.port)
        self.empty = process.anonymous()
        done = 0
        environment = {**os.environ, "COUNT": str(count)}
        command = ["taskset", "-c", "1", "wrk", "-t1", "-c64", "-d600s", "-s", str(HERE / "sequence.lua"), f"http://127.0.0.1:{self.port}/"]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        while done < count:
            time.sleep(1)
            text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics").read().decode()
            done = int(float(re.search(r"^cistern_store_entries(?:{[^}]*})? (\S+)", text, re.M)[1]))
            if child.poll() is not None:
                break
        child.kill()
        child.wait()
        return process


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern", help="the release binary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", default="", help=", ".join([*CASES, "memory", "idle", *secure.CASES, "two"]) + ": joined by commas")
    parser.add_argument("--million", action="store_true", help="also fill a store with a million answers (some minutes)")
    parser.add_argument("--blocking", action="store_true", help="small hits beside everything that takes long, instead (blocking.py)")
    parser.add_argument("--codings", action="store_true", help="what content codings cost, instead (codings.py)")
    parser.add_argument("--identities", action="store_true", help="what a verified identity costs a hit, instead (identities.py)")
    parser.add_argument("--http2", action="store_true", help="hits over HTTP/2 and its idle connections, instead (http2.py)")
    parser.add_argument("--directory", default=None, help="where to work (default: the system's temporary directory)")
    options = parser.parse_args()
    options.cistern = str(Path(options.cistern).resolve())
    options.command = ["env", *as_packaged(), options.cistern]
    for tool in ("nginx", "haproxy", "wrk", "taskset", "openssl", "cc"):
        if not shutil.which(tool):
            sys.exit(f"bench: {tool} is missing (apt-get install nginx haproxy wrk util-linux openssl gcc)")
    bench = Bench(options)
    try:
        if options.blocking:
            sys.exit(0 if blocking.Blocking(bench, options).run() else 1)
        if options.codings:
            return codings.Codings(bench, free_port, wait_for).run()
        if options.identities:
            return identities.Identities(bench, free_port, wait_for).run()
        if options.http2:
            return http2.HTTP2(bench, free_port, wait_for).run()
        bench.run()
    finally:
        bench.close()


if __name__ == "__main__":
    main()
