"""Memory: the binary, an empty process, idle clients, and a store with a million responses."""
import os
import re
import signal
import socket
import time
from pathlib import Path

from servers import wait_for, metric

IDLE = 5_000
MILLION = 1_000_000


def binary(servers, report):
    report.add("binary, stripped", os.path.getsize(servers.options.cistern) / 1e6, "MB", limits={None: 20})
    process = servers.start_cistern("empty")
    time.sleep(1)
    report.add("resident memory, empty store", process.memory() / 2**20, "MiB", limits={None: 20})
    servers.stop(process)


def connect(port, path, count=IDLE):
    """Idle clients that have had a response each."""
    clients = []
    for _ in range(count):
        clients.append(socket.create_connection(("127.0.0.1", port)))
        clients[-1].sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
    for client in clients:
        client.recv(8192)
    return clients


def idle(servers, report):
    process = servers.start_cistern("idle")
    connect(servers.port["idle"], "/hit", 1)
    before = process.anonymous()
    clients = connect(servers.port["idle"], "/hit")
    report.add(f"idle client of {IDLE:,}, HTTP/1.1", (process.anonymous() - before) / IDLE, "B", limits={None: 1024})
    for client in clients:
        client.close()
    servers.stop(process)


def without_store(process, directory):
    """Resident bytes without the mapped files of the store, which the kernel can drop."""
    total, is_counted = 0, True
    for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_counted = directory not in line
        elif line.startswith("Rss:") and is_counted:
            total += int(line.split()[1]) * 1024
    return total


def million(servers, report):
    """Fills a store, then starts without the upstream: after kill -9 and after a clean stop."""
    process = servers.start_cistern("million", upstream="doomed")
    empty, origin = process.anonymous(), servers.start_origin("doomed")
    servers.fill_by_wrk(servers.port["million"], "/same/", MILLION)
    servers.settle(servers.port["million"])
    servers.stop(origin, signal.SIGKILL)
    for title, by in (("after kill -9", signal.SIGKILL), ("after a clean stop", signal.SIGTERM)):
        servers.stop(process, by)
        began = time.monotonic()
        process = servers.start_cistern("million", upstream="doomed")
        wait_for(servers.port["million"], "/same/4711")
        report.add(f"million responses: start to first rescue, {title}", time.monotonic() - began, "s", limits={None: 1})
    entries = metric(servers.port["million"], "cistern_store_entries")
    report.add("million responses: memory for each", (process.anonymous() - empty) / entries, "B", limits={None: 100},
               note=f"{entries:,.0f} entries")
    clients = connect(servers.port["million"], "/same/4711")
    report.add(f"million responses and {IDLE:,} idle clients: resident memory", without_store(process, servers.directory) / 2**20, "MiB",
               limits={None: 120}, note="without the mapped files of the store")
    for client in clients:
        client.close()
    servers.stop(process)
