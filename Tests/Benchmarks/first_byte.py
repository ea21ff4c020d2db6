"""Time to the first byte of long content that is not stored yet."""
import itertools
import socket
import statistics
import time

LENGTH, REQUESTS = 8 << 20, 5


def run(servers, report):
    numbers = itertools.count()

    def measure(port):
        return statistics.median(first_byte(port, f"/new.{LENGTH}/first-{next(numbers)}") for _ in range(REQUESTS))

    figures = servers.alternate({name: servers.server(name)[1] for name in ("cistern", "nginx pass")}, measure, warm_up=True)
    report.add("first byte of 8 MiB", figures["cistern"], "ms", {"nginx pass": figures["nginx pass"]}, {"nginx pass": 1.10})


def first_byte(port, path):
    """Milliseconds. Receives the whole response."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(30)
        began = time.perf_counter()
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        received = client.recv(1)
        elapsed = time.perf_counter() - began
        received += client.recv(65_536)
        rest = LENGTH + len(received.split(b"\r\n\r\n", 1)[0]) + 4 - len(received)
        while rest > 0:
            rest -= len(client.recv(1 << 20)) or rest
    return elapsed * 1000
