"""Hits over HTTP/2 without TLS, with 100 streams at once on each connection, and memory of idle HTTP/2 connections."""
import re
import socket
import struct
import subprocess
import time

from servers import wait_for

NGINX = """
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
        listen 127.0.0.1:{port[nginx http2]} http2 backlog=8192;
        location / {{ proxy_pass http://127.0.0.1:{port[origin]}; proxy_cache one; }}
    }}
}}
"""
CONFIGURATION = """
listen:
  - address: 127.0.0.1:{port[cistern http2]}
    h2c: true
"""
CONNECTIONS = 5_000
H2LOAD = ["-c", "4", "-m", "100"]
PATH = "/hit"


def h2load(servers, process, address):
    """CPU microseconds of a request, for `seconds`."""
    before = process.cpu()
    out = subprocess.run(["taskset", "-c", "1", "h2load", "-D", str(servers.options.seconds), *H2LOAD, address],
                         check=True, capture_output=True, text=True, timeout=120).stdout
    good, bad = int(re.search(r"status codes: (\d+) 2xx", out)[1]), re.search(r"(\d+) failed, (\d+) errored", out)
    if good == 0 or bad[1] != "0":
        raise SystemExit(f"{process.name}: not all responses were good\n{out}")
    return (process.cpu() - before) / good * 1e6


def run(servers, report):
    file = servers.configuration("http2.yaml", CONFIGURATION)
    processes = {
        "nginx": servers.start("nginx http2", 0, servers.nginx("http2.conf", NGINX)),
        "cistern": servers.start("cistern http2", 0, [
            *servers.options.command, "serve", "--upstream", f"http://127.0.0.1:{servers.port['origin']}", "--config", file,
            "--cache-dir", f"{servers.directory}/http2", "--set", "shards=1"]),
    }
    wait_for(servers.port["cistern http2"], "/healthz")
    ports = {name: servers.port[f"{name} http2"] for name in processes}
    cpu = servers.alternate(
        {name: (process, f"http://127.0.0.1:{ports[name]}{PATH}") for name, process in processes.items()},
        lambda one: h2load(servers, *one), warm_up=True)
    report.add("hit, HTTP/2 without TLS", cpu["cistern"], "µs", {"nginx": cpu["nginx"]}, {"nginx": 0.85})
    memory = {name: idle(process, ports[name]) for name, process in processes.items()}
    report.add(f"idle client of {CONNECTIONS:,}, HTTP/2 without TLS", memory["cistern"], "KiB", {"nginx": memory["nginx"]}, {None: 26})
    for process in processes.values():
        servers.stop(process)


def idle(process, port):
    before = process.anonymous()
    clients = [connect(port) for _ in range(CONNECTIONS)]
    time.sleep(2)
    each = (process.anonymous() - before) / CONNECTIONS / 1024
    for client in clients:
        client.close()
    return each


def connect(port):
    client = socket.create_connection(("127.0.0.1", port))
    request(client, PATH.encode())
    return client


def request(client, path):
    """Sends one request, and receives its response."""
    fields = b"\x82\x86\x41\x01a\x04" + bytes([len(path)]) + path
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 5, 1, fields))
    client.settimeout(10)
    received = b""
    while b"\x00\x01\x00\x00\x00\x01" not in received:
        received += client.recv(65_536)
    client.sendall(frame(4, 1, 0))


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
