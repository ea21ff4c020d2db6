"""Clients over TLS: hits over HTTP/1.1 and HTTP/2 (100 streams at once on each of four connections), handshakes with a P-256 key, and
memory of idle connections; beside nginx, HAProxy and a minimal server in C (floor_tls.c), which sends equal bytes in equal records."""
import re
import socket
import ssl
import subprocess
import time
from pathlib import Path

import http2
from servers import Load, wait_for

CASES = ["tls_hit", "h2_hit", "handshakes", "idle_tls"]
IDLE = 5_000
# Concurrent handshakes.
AT_ONCE = 32

CONFIGURATION = """
listen: ["127.0.0.1:{port[secure cistern clear]}", "https://127.0.0.1:{port[secure cistern tls]}"]
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
    listen 127.0.0.1:{port[secure nginx clear]} backlog=4096; listen 127.0.0.1:{port[secure nginx tls]} ssl backlog=4096;
    listen 127.0.0.1:{port[secure nginx h2]} ssl http2 backlog=4096;
    location / {{ proxy_cache one; proxy_pass http://127.0.0.1:{port[origin]}; }}
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
  bind 127.0.0.1:{port[secure haproxy clear]}
  bind 127.0.0.1:{port[secure haproxy tls]} ssl crt {dir}/server.both alpn h2,http/1.1
  http-request cache-use bench
  http-response cache-store bench
  default_backend back
backend back
  server origin 127.0.0.1:{port[origin]}
"""


class Secure:
    def __init__(self, servers, report):
        self.servers, self.report, self.processes = servers, report, {}
        # These offer both protocols on one port.
        for name in ("cistern", "haproxy", "floor"):
            servers.port[f"secure {name} h2"] = self.port(name, "tls")
        for name in ("cistern", "nginx", "haproxy", "floor"):
            self.start(name)

    def port(self, name, kind):
        return self.servers.port[f"secure {name} {kind}"]

    def stop(self):
        for process in self.processes.values():
            self.servers.stop(process)

    def start(self, name):
        self.processes[name] = self.servers.start(f"secure {name}", 0, getattr(self, name)())
        wait_for(self.port(name, "clear"), "/hit")

    def cistern(self):
        servers = self.servers
        return [*servers.options.command, "serve", "--upstream", f"http://127.0.0.1:{servers.port['origin']}", "--config",
                servers.configuration("secure.yaml", CONFIGURATION), "--cache-dir", f"{servers.directory}/secure", "--set", "shards=1"]

    def nginx(self):
        return self.servers.nginx("secure.conf", NGINX)

    def haproxy(self):
        directory = Path(self.servers.directory)
        (directory / "server.both").write_text("".join((directory / f"server.{kind}").read_text() for kind in ("pem", "key")))
        return ["haproxy", "-db", "-f", self.servers.configuration("secure.haproxy", HAPROXY)]

    def floor(self):
        """It sends the bytes that Cistern sends."""
        directory = self.servers.directory
        (Path(directory) / "response").write_bytes(self.hit(self.port("cistern", "tls")))
        program = self.servers.compile("floor_tls", "-lssl", "-lcrypto", "-lnghttp2")
        return [program, str(self.port("floor", "clear")), str(self.port("floor", "tls")), f"{directory}/response",
                f"{directory}/server.pem", f"{directory}/server.key"]

    def hit(self, port):
        """All bytes of a hit over TLS with HTTP/1.1."""
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

    def wrk(self, name):
        process = self.processes[name]
        before = process.cpu()
        count, _ = self.servers.wrk(Load(process, self.port(name, "tls"), "/hit"), scheme="https")
        return (process.cpu() - before) / count * 1e6

    def tls_hit(self):
        cpu = self.servers.alternate({name: name for name in self.processes}, self.wrk, warm_up=True)
        self.add("hit, HTTP/1.1 over TLS", "µs", cpu, {"nginx": 0.85, "bare tls": 1.10}, "bare tls")

    def h2_hit(self):
        cpu = self.servers.alternate(
            {name: (self.processes[name], f"https://localhost:{self.port(name, 'h2')}/hit") for name in self.processes},
            lambda one: http2.h2load(self.servers, *one), warm_up=True)
        self.add("hit, HTTP/2 over TLS", "µs", cpu, {"nginx": 0.85, "bare h2": 1.25}, "bare h2")

    def add(self, title, unit, figures, limits, floor, is_least=False):
        others = {floor if name == "floor" else name: figure for name, figure in figures.items() if name != "cistern"}
        self.report.add(title, figures["cistern"], unit, others, limits, is_least)

    # Handshakes

    def handshakes(self):
        program = self.servers.compile("handshakes", "-lssl", "-lcrypto")
        for kind in ("full", "resumed"):
            def measure(name):
                process = self.processes[name]
                before = process.cpu()
                arguments = [str(self.port(name, "tls")), str(AT_ONCE), str(self.servers.options.seconds), kind]
                command = ["taskset", "-c", "1", program, *arguments]
                out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                return int(re.match(r"(\d+) handshakes", out)[1]) / (process.cpu() - before)

            figures = self.servers.alternate({name: name for name in ("cistern", "nginx")}, measure, warm_up=True)
            self.add(f"{kind} handshakes per second of CPU", "", figures, {"nginx": 0.95}, None, is_least=True)

    # Memory

    def idle_tls(self):
        for kind, protocol, title, limit in (("tls", "http/1.1", "HTTP/1.1", 20), ("h2", "h2", "HTTP/2", 40)):
            each = {name: self.idle(name, kind, protocol) for name in ("cistern", "nginx")}
            self.add(f"idle client of {IDLE:,}, {title} over TLS", "KiB", each, {None: limit}, None)

    def idle(self, name, kind, protocol):
        # Memory that earlier connections have left would be used again.
        self.servers.stop(self.processes[name])
        self.start(name)
        process, port = self.processes[name], self.port(name, kind)
        before = process.anonymous()
        clients, context = [], self.context(protocol)
        for _ in range(IDLE):
            client = self.connect(port, context)
            if protocol == "h2":
                http2.request(client, b"/hit")
            else:
                client.sendall(b"GET /hit HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.recv(65_536)
            clients.append(client)
        # Buffers of idle connections are freed after two seconds.
        time.sleep(3)
        each = (process.anonymous() - before) / IDLE / 1024
        for client in clients:
            client.close()
        return each
