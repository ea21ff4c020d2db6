"""Starts and loads the servers of the benchmarks: Cistern as its package starts it, nginx, HAProxy, minimal servers in C, and their
upstream.

Each server that is measured is pinned to core 0. wrk and the upstream (origin.c) are pinned to core 1. All listen on loopback.
"""
import collections
import itertools
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGETS = 10_000

NGINX = """
worker_processes 1; daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/nginx.log crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 20000; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s;
  sendfile on; tcp_nopush on; proxy_buffer_size 16k; proxy_buffers 8 16k;
  proxy_http_version 1.1; proxy_set_header Connection "";
  proxy_ssl_verify on; proxy_ssl_trusted_certificate {dir}/server.pem; proxy_ssl_name localhost; proxy_ssl_protocols TLSv1.2 TLSv1.3;
  proxy_cache_path {dir}/nginx-cache levels=1:2 keys_zone=one:200m max_size=8g inactive=10h use_temp_path=off;
  proxy_cache_use_stale error timeout http_500 http_502 http_503 http_504;
  upstream origin {{ server 127.0.0.1:{port[origin]}; keepalive 128; keepalive_requests 100000000; }}
  upstream origin_tls {{ server 127.0.0.1:{port[origin tls]}; keepalive 128; keepalive_requests 100000000; }}
  upstream doomed {{ server 127.0.0.1:{port[doomed]}; keepalive 128; }}
  server {{ listen 127.0.0.1:{port[nginx]} backlog=4096; location / {{ proxy_cache one; proxy_pass http://origin; }} }}
  server {{ listen 127.0.0.1:{port[nginx pass]} backlog=4096; location / {{ proxy_pass http://origin; }} }}
  server {{ listen 127.0.0.1:{port[nginx pass tls]} backlog=4096; location / {{ proxy_pass https://origin_tls; }} }}
  server {{
    listen 127.0.0.1:{port[nginx stale]} backlog=4096;
    location / {{ proxy_cache one; proxy_cache_valid 200 1s; proxy_pass http://doomed; }}
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
  bind 127.0.0.1:{listen}
  http-request cache-use bench
  http-response cache-store bench
  default_backend back
backend back
  http-reuse always
  server origin 127.0.0.1:{port[origin]}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(port, path):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=15).read().decode()


def wait_for(port, path="/", seconds=15):
    end = time.time() + seconds
    while time.time() < end:
        try:
            return fetch(port, path)
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"no response on port {port}")


def metric(port, name):
    """Largest value of a metric of Cistern."""
    return max(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", fetch(port, "/metrics"), re.M))


def as_packaged():
    """Settings of the C library in the package's systemd unit. Cistern is measured as it is installed, like nginx."""
    unit = HERE.parent.parent / "Configuration/systemd/cistern.service"
    return re.findall(r"^Environment=(GLIBC_TUNABLES=\S+)$", unit.read_text(), re.MULTILINE)


class Process:
    """A pinned child, and the resources that it has used."""

    def __init__(self, name, cores, command, directory):
        self.name = name
        self.log = open(Path(directory) / f"{name.replace(' ', '-')}.out", "ab")
        self.child = subprocess.Popen(["taskset", "-c", str(cores), *command], stdout=self.log, stderr=self.log)
        self.pid = self.child.pid

    def cpu(self):
        """CPU seconds of all threads, from the kernel's clock of another process: clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def figure(self, file, name):
        return int(re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{self.pid}/{file}").read_text(), re.M)[1])

    def memory(self):
        return self.figure("status", "VmRSS") * 1024

    def anonymous(self):
        """Resident bytes without file mappings, such as those of the store."""
        return self.figure("status", "RssAnon") * 1024

    def written(self):
        """Bytes of pages that the process has made the kernel write to a disk."""
        return self.figure("io", "write_bytes")

    def stop(self, by=signal.SIGTERM):
        if self.child.poll() is None:
            self.child.send_signal(by)
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.log.close()


@dataclass
class Load:
    """Requests of wrk to one server."""
    process: Process
    port: int
    path: str = "/"
    script: str = None
    environment: dict = None
    connections: int = 64
    cores: str = "1"
    threads: int = 1


class Servers:
    def __init__(self, options):
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="cistern-bench-", dir=options.directory)
        self.port = collections.defaultdict(free_port)
        self.started, self.running, self.programs, self.filled, self.files = {}, [], {}, set(), itertools.count()
        self.starters = {
            "cistern": lambda: self.start_cistern("cistern"),
            "cistern tls": lambda: self.start_secure_cistern("cistern tls", "origin tls"),
            "cistern h2u": lambda: self.start_secure_cistern("cistern h2u", "origin h2"),
            "haproxy": lambda: self.start_haproxy("haproxy"),
            "floor": lambda: self.start_floor("floor"),
            "floor pass": lambda: self.start_floor("floor pass", str(self.port["origin"])),
        }
        subprocess.run([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", f"{self.directory}/server.key", "-out", f"{self.directory}/server.pem"], check=True, capture_output=True)
        self.start_origin("origin")

    # Starting

    def start(self, name, cores, command):
        process = Process(name, cores, command, self.directory)
        self.running.append(process)
        return process

    def stop(self, process, by=signal.SIGTERM):
        process.stop(by)
        self.running.remove(process)

    def close(self):
        for process in reversed(self.running):
            process.stop(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def compile(self, name, *libraries):
        if name not in self.programs:
            self.programs[name] = f"{self.directory}/{name}"
            subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", self.programs[name], str(HERE / f"{name}.c"), *libraries], check=True)
        return self.programs[name]

    def configuration(self, file, text, **others):
        path = Path(self.directory) / file
        path.write_text(text.format(dir=self.directory, port=self.port, **others))
        return str(path)

    def server(self, name):
        """A server and its port. It is started when it is needed first, and then runs until the end."""
        if name in ("cistern down", "nginx stale"):
            self.take_upstream_down()
        if name.startswith("nginx"):
            if "nginx" not in self.started:
                self.started["nginx"] = self.start("nginx", 0, self.nginx("nginx.conf", NGINX))
                wait_for(self.port["nginx"])
            return self.started["nginx"], self.port[name]
        if name not in self.started:
            self.started[name] = self.starters[name]()
        return self.started[name], self.port[name]

    def start_origin(self, name):
        program = self.compile("origin", "-lssl", "-lcrypto", "-lnghttp2")
        for kind, tls, *options in (("", " tls"), (" clear", " h2", "http2")) if name == "origin" else (("", " tls"),):
            process = self.start(name + kind, 1, [program, str(self.port[name + kind]), str(self.port[name + tls]),
                                                  f"{self.directory}/server.pem", f"{self.directory}/server.key", *options])
            wait_for(self.port[name + kind])
        return process

    def start_cistern(self, name, *extra, upstream="origin", scheme="http", config=None, cores="0", shards=1):
        """A Cistern with a store of its own, which an earlier process of this name may have filled."""
        address = f"127.0.0.1:{self.port[name]}"
        source = ["--upstream", f"{scheme}://127.0.0.1:{self.port[upstream]}"] if upstream else []
        process = self.start(name, cores, [
            *self.options.command, "serve", *source, *(["--config", config] if config else []), "--listen", address, "--cache-dir",
            f"{self.directory}/store-{name.replace(' ', '-')}", "--cache-size", "4GiB", "--set", f"shards={shards}", *extra])
        wait_for(self.port[name], "/healthz")
        return process

    def start_secure_cistern(self, name, upstream):
        return self.start_cistern(name, "--set", f"upstream.ca_file={self.directory}/server.pem", upstream=upstream, scheme="https")

    def nginx(self, file, text, **others):
        return ["nginx", "-c", self.configuration(file, text, **others), "-e", f"{self.directory}/nginx.log"]

    def start_haproxy(self, name, cores="0", threads=1):
        file = self.configuration(f"{name}.conf".replace(" ", "-"), HAPROXY, threads=threads, listen=self.port[name])
        process = self.start(name, cores, ["haproxy", "-db", "-f", file])
        wait_for(self.port[name])
        return process

    def start_floor(self, name, *upstream):
        process = self.start(name, 0, [self.compile("floor"), str(self.port[name]), "1024", *upstream])
        wait_for(self.port[name])
        return process

    def take_upstream_down(self):
        """A Cistern and an nginx that have stored the responses of an upstream that has ended since."""
        if "cistern down" in self.started:
            return
        doomed = self.start_origin("doomed")
        self.started["cistern down"] = self.start_cistern("cistern down", upstream="doomed")
        for name in ("cistern down", "nginx stale"):
            self.fill(self.server(name)[1], "/same/{}", TARGETS)
        self.settle(self.port["cistern down"])
        self.stop(doomed, signal.SIGKILL)
        # nginx's copies are fresh for one second.
        time.sleep(2.1)

    # Requests

    def requests(self, path, count, fields=""):
        """A file for openloop with a request for each of `count` targets.

        - path: of a target's number: a format, or a function
        """
        target = path if callable(path) else path.format
        file = Path(self.directory) / f"requests-{next(self.files)}"
        file.write_text("".join(f"GET {target(number)} HTTP/1.1\r\nHost: bench\r\n{fields}\r\n\0" for number in range(count)))
        return file

    def fill(self, port, path, count, fields=""):
        """Requests each of `count` targets once, as fast as possible. It does nothing if that has been done before."""
        if (port, path, count) in self.filled:
            return
        self.filled.add((port, path, count))
        command = ["taskset", "-c", "1", self.compile("openloop"), str(port), "64", str(count * 8), "0.125"]
        out = subprocess.run([*command, str(self.requests(path, count, fields))], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(f"port {port} was not filled: {out.stderr or out.stdout}")

    def fill_by_wrk(self, port, prefix, count):
        """As fill, but faster. The store is otherwise unused."""
        before = metric(port, "cistern_store_entries")
        environment = {**os.environ, "PREFIX": prefix, "COUNT": str(count)}
        command = ["taskset", "-c", "1", "wrk", "-t1", "-c64", "-d600s", "-s", str(HERE / "sequence.lua"), f"http://127.0.0.1:{port}/"]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        while child.poll() is None and metric(port, "cistern_store_entries") < before + count:
            time.sleep(0.2)
        child.kill()
        child.wait()

    def settle(self, port):
        """Waits until Cistern has compressed and written all responses."""
        while metric(port, "cistern_store_pending_bytes") > 0:
            time.sleep(0.1)

    def wrk(self, load, scheme="http", seconds=None):
        """Numbers of requests, and of requests per second."""
        command = ["taskset", "-c", load.cores, "wrk", f"-t{load.threads}", f"-c{load.connections}"]
        command += [f"-d{seconds or self.options.seconds}s", *(["-s", str(HERE / load.script)] if load.script else [])]
        environment = {**os.environ, **(load.environment or {})}
        address = f"{scheme}://127.0.0.1:{load.port}{load.path}"
        out = subprocess.run([*command, address], capture_output=True, text=True, check=True, env=environment).stdout
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out) or re.search(r"Socket errors: (.*)", out)
        if bad:
            print(f"  ! {load.process.name}, {load.path}: {bad[0]}", file=sys.stderr)
        return int(re.search(r"(\d+) requests in", out)[1]), float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])

    def alternate(self, contenders, measure, warm_up=False):
        """Medians of alternating rounds, {name: figure} or {name: [figure, …]}, of `measure` with each contender."""
        figures = {name: [] for name in contenders}
        for number in range(-1 if warm_up else 0, self.options.rounds):
            for name, contender in contenders.items():
                figure = measure(contender)
                if number >= 0:
                    figures[name].append(figure)
        return {name: statistics.median(values) if isinstance(values[0], float) else [statistics.median(each) for each in zip(*values)]
                for name, values in figures.items()}

    def compare(self, loads):
        """{name: (CPU microseconds of a request, requests per second)}."""
        def measure(load):
            before = load.process.cpu()
            count, rate = self.wrk(load)
            return (load.process.cpu() - before) / count * 1e6, rate
        return self.alternate(loads, measure)
