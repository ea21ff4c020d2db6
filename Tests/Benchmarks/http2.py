"""Hits over HTTP/2, 100 streams at once on each connection, beside nginx with http2, in clear; and what idle HTTP/2 connections take of memory.

    bench.py --http2

Bars: CPU of a hit at most 0.85 of nginx's; 5,000 idle connections at most 26 KiB each (40 KiB over TLS, of which TLS takes 14).
"""
import re
import socket
import struct
import subprocess
import time
from pathlib import Path

PEER = """
worker_processes 1; daemon off; master_process off; worker_rlimit_nofile 20000;
error_log {dir}/nginx-http2.log crit;
pid {dir}/nginx-http2.pid;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    http2_max_requests 1000000000;
    proxy_cache_path {dir}/nginx-http2 keys_zone=one:64m max_size=1g;
    server {{
        listen 127.0.0.1:{port} http2 backlog=8192;
        location / {{
            proxy_pass http://127.0.0.1:{origin};
            proxy_cache one;
            proxy_cache_valid 200 10m;
        }}
    }}
}}
"""
CONFIGURATION = """
listen:
  - address: 127.0.0.1:{port}
    h2c: true
"""
CONNECTIONS = 5_000


class HTTP2:
    def __init__(self, bench, free_port, wait_for):
        self.bench, self.wait_for = bench, wait_for
        self.ports = {"cistern": free_port(), "nginx": free_port()}

    def start(self):
        bench, directory = self.bench, self.bench.directory
        bench.start_origin()
        self.wait_for(bench.origin_port)
        (Path(directory) / "http2.conf").write_text(PEER.format(dir=directory, port=self.ports["nginx"], origin=bench.origin_port))
        (Path(directory) / "http2.yaml").write_text(CONFIGURATION.format(port=self.ports["cistern"]))
        self.processes = {
            "nginx": bench.start("nginx-http2", 0, ["nginx", "-c", f"{directory}/http2.conf", "-e", f"{directory}/nginx.log"]),
            "cistern": bench.start("cistern-http2", 0, [
                *bench.options.command, "serve", "--upstream", f"http://127.0.0.1:{bench.origin_port}", "--config", f"{directory}/http2.yaml",
                "--cache-dir", f"{directory}/http2", "--set", "shards=1"]),
        }
        self.wait_for(self.ports["cistern"], "/healthz")
        time.sleep(1)

    def load(self, name, requests, path="/fresh/1"):
        """One run of h2load: CPU microseconds a request, and requests a second."""
        process = self.processes[name]
        before = process.cpu()
        text = subprocess.run(
            ["taskset", "-c", "1", "h2load", "-n", str(requests), "-c", "4", "-m", "100", f"http://127.0.0.1:{self.ports[name]}{path}"],
            check=True, capture_output=True, text=True, timeout=120).stdout
        good = int(re.search(r"status codes: (\d+) 2xx", text)[1])
        if good != requests:
            raise SystemExit(f"{name}: {good} of {requests} were good\n{text}")
        return (process.cpu() - before) / requests * 1e6, float(re.search(r"([\d.]+) req/s", text)[1])

    def run(self):
        self.start()
        for name in self.processes:
            self.load(name, 2_000)
        rounds = {name: [] for name in self.processes}
        for _ in range(self.bench.options.rounds):
            for name in self.processes:
                rounds[name].append(self.load(name, 100_000))
        median = {name: sorted(figures)[len(figures) // 2] for name, figures in rounds.items()}
        ratio = median["cistern"][0] / median["nginx"][0]
        print(f"| hit over HTTP/2 in clear, 4 connections with 100 streams | {median['cistern'][0]:.1f} µs | {median['nginx'][0]:.1f} µs | "
              f"{ratio:.2f} | 0.85 | {median['cistern'][1] / median['nginx'][1]:.2f} | {'reached' if ratio <= 0.85 else 'missed'} |", flush=True)
        self.idle()

    def idle(self):
        for name, process in self.processes.items():
            before = process.anonymous()
            clients = [self.connect(self.ports[name]) for _ in range(CONNECTIONS)]
            time.sleep(2)
            each = (process.anonymous() - before) / CONNECTIONS / 1024
            verdict = "" if name != "cistern" else f" (bar 26): {'reached' if each <= 26 else 'missed'}"
            print(f"| {CONNECTIONS} idle HTTP/2 connections in clear, {name} | {each:.1f} KiB each{verdict} |", flush=True)
            for client in clients:
                client.close()
            time.sleep(2)

    @staticmethod
    def connect(port):
        client = socket.create_connection(("127.0.0.1", port))
        ask(client, b"/fresh/1")
        return client


def ask(client, path):
    """One request, with its response, and then nothing."""
    fields = b"\x82\x86\x41\x01a\x04" + bytes([len(path)]) + path
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 5, 1, fields))
    client.settimeout(10)
    received = b""
    while b"\x00\x01\x00\x00\x00\x01" not in received:
        received += client.recv(65_536)
    client.sendall(frame(4, 1, 0))


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
