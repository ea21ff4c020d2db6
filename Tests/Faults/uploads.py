"""Slow clients by the thousand: uploads that trickle in, and downloads that are read slowly. What do all others notice of them?

One event loop of the proxy serves everybody, so that nothing can be hidden on another. Three processes stand around it: the origin, the
slow clients, and the others, whose hits, misses and small writes are timed before and beside each crowd.
"""
import json
import multiprocessing
import re
import resource
import selectors
import shutil
import socket
import tempfile
import time
from pathlib import Path

from play import Cistern, Client

KB = 1024
# The others: so many connections, so many requests a second in all.
CONNECTIONS = 12
RATE = 300
# The bar, in seconds.
SLOWER = 0.020
# How often each slow client sends or reads a little.
INTERVAL = 1.0
LENGTH = 384 * KB
DEFAULTS = ["--shards", "1", "--buffer-limit", "8MiB", "--connect-timeout", "5s", "--first-byte-timeout", "30s",
            "--total-timeout", "2m", "--set", "upstream.between_bytes_timeout=30s"]


def serve(listener):
    """The origin: reads requests whole and answers at once, on one loop."""
    listener.listen(4096)
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    download = reply(b"text/plain", b"d" * LENGTH)
    connections = {}
    while True:
        for key, events in selector.select():
            if key.fileobj is listener:
                accept(listener, selector, connections)
                continue
            connection = connections[key.fd]
            if not connection.turn(events, download):
                selector.unregister(key.fileobj)
                key.fileobj.close()
                del connections[key.fd]
            else:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.output else 0)
                if key.events != wanted:
                    selector.modify(key.fileobj, wanted)


def accept(listener, selector, connections):
    try:
        while True:
            sock, _ = listener.accept()
            sock.setblocking(False)
            connections[sock.fileno()] = OriginConnection(sock)
            selector.register(sock, selectors.EVENT_READ)
    except BlockingIOError:
        pass


def reply(kind, content, more=b""):
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (kind, len(content), more, content)


class OriginConnection:
    def __init__(self, sock):
        self.sock, self.input, self.output, self.left, self.answer = sock, bytearray(), b"", 0, b""

    def turn(self, events, download):
        """Returns whether the connection stands."""
        try:
            if events & selectors.EVENT_READ:
                got = self.sock.recv(65_536)
                if not got:
                    return False
                self.take(got, download)
            if self.output:
                self.output = self.output[self.sock.send(self.output):]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def take(self, got, download):
        if self.left:
            part = min(self.left, len(got))
            self.left -= part
            got = got[part:]
            if not self.left:
                self.output += self.answer
        self.input += got
        while not self.left and (end := self.input.find(b"\r\n\r\n")) >= 0:
            head, rest = bytes(self.input[:end]), self.input[end + 4:]
            target = head.split(b" ", 2)[1]
            fields = b"Cache-Control: max-age=3600\r\n" if target.startswith(b"/hit") else b"Cache-Control: no-store\r\n"
            self.answer = download if target == b"/download" else reply(b"application/json", json.dumps(target.decode()).encode(), fields)
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            count = int(length[1]) if length else 0
            if b"chunked" in head.lower():
                raise ValueError("no play sends chunks")
            part = min(count, len(rest))
            self.left, self.input = count - part, rest[part:]
            if not self.left:
                self.output += self.answer


class Crowd:
    """Slow clients, all on one loop: each sends a little, or reads a little, once in a while."""

    def __init__(self, path, kind, count, length, piece, outcomes):
        self.path, self.kind, self.count, self.length, self.piece, self.outcomes = path, kind, count, length, piece, outcomes

    def run(self, ended):
        clients = []
        for _ in range(self.count):
            sock = socket.socket(socket.AF_UNIX)
            if self.kind == "download":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KB)
            sock.connect(self.path)
            sock.setblocking(False)
            head = (b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % self.length if self.kind == "upload"
                    else b"GET /download HTTP/1.1\r\nHost: a\r\n\r\n")
            sock.send(head)
            clients.append([sock, self.length, b""])
        parts = 20
        turn = 0
        while not ended.is_set() and any(clients):
            began = time.monotonic()
            for number in range(turn % parts, self.count, parts):
                if clients[number] and not self.step(clients[number]):
                    clients[number] = None
            turn += 1
            time.sleep(max(0, began + INTERVAL / parts - time.monotonic()))
        for client in filter(None, clients):
            self.outcomes.put("under way")
            client[0].close()

    def step(self, client):
        """Returns whether there is more to do."""
        sock, left, _ = client
        try:
            if self.kind == "upload" and left:
                client[1] -= sock.send(b"u" * min(self.piece, left))
        except BlockingIOError:
            pass
        except OSError:
            client[1] = 0
        try:
            got = sock.recv(self.piece if self.kind == "download" else 4 * KB)
        except BlockingIOError:
            return True
        except OSError:
            got = b""
        if not client[2]:
            client[2] = got[9:12] or b"cut"
        if self.kind == "download" and got:
            client[1] -= len(got)
            if client[1] > 0:
                return True
        self.outcomes.put(client[2].decode())
        sock.close()
        return False


def others(path, seconds, results):
    """Hits, misses and small writes by the clock; who falls behind does not catch up."""
    selector = selectors.DefaultSelector()
    clients = [OtherClient(path, number, selector) for number in range(CONNECTIONS)]
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        for client in clients:
            client.start(now)
        due = min((client.due for client in clients if not client.target), default=now + 0.05)
        for key, _ in selector.select(max(0, min(due, end) - time.monotonic())):
            key.data.read()
    for client in clients:
        client.finish()
    results.put([outcome for client in clients for outcome in client.outcomes])


class OtherClient:
    def __init__(self, path, number, selector):
        self.path, self.number, self.selector = path, number, selector
        self.interval = CONNECTIONS / RATE
        self.due = time.monotonic() + self.interval * number / CONNECTIONS
        self.turn, self.target, self.outcomes = 0, None, []
        self.connect()

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)
        self.selector.register(self.sock, selectors.EVENT_READ, self)
        self.held = b""

    def start(self, now):
        if self.target or now < self.due:
            return
        self.kind = ("hit", "miss", "write")[(self.turn + self.number) % 3]
        self.target = f"/{self.kind}/{self.turn % 50}"
        self.turn += 1
        self.due = max(self.due + self.interval, now - self.interval)
        method, rest = ("POST", "Content-Length: 40\r\n\r\n" + "w" * 40) if self.kind == "write" else ("GET", "\r\n")
        self.sent = time.monotonic()
        self.sock.sendall(f"{method} {self.target} HTTP/1.1\r\nHost: a\r\n{rest}".encode())

    def read(self):
        got = self.sock.recv(65_536)
        self.held += got
        if self.target and got and b"\r\n\r\n" in self.held:
            head, content = self.held.split(b"\r\n\r\n", 1)
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            if len(content) < length:
                return
            isGood = head.startswith(b"HTTP/1.1 200") and content == json.dumps(self.target).encode()
            self.end("" if isGood else head[9:12].decode())
        elif not got:
            if self.target:
                self.end("cut")
            self.selector.unregister(self.sock)
            self.sock.close()
            self.connect()

    def end(self, wrong):
        self.outcomes.append((self.kind, time.monotonic() - self.sent, wrong))
        self.target, self.held = None, b""

    def finish(self):
        """What has not been answered by now is waited for, and counts with all its time."""
        self.sock.settimeout(10)
        try:
            while self.target:
                self.read()
        except OSError:
            self.end("no response")


class Uploads:
    def __init__(self, options):
        self.options = options
        self.rows = []
        self.red = []

    def run(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        directory = tempfile.mkdtemp(prefix="cistern-uploads-")
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        origin = multiprocessing.Process(target=serve, args=(listener,), daemon=True)
        origin.start()
        cistern = Cistern(self.options.cistern, f"http://127.0.0.1:{listener.getsockname()[1]}", directory, DEFAULTS)
        try:
            return self.measure(cistern)
        finally:
            cistern.kill()
            origin.kill()
            shutil.rmtree(directory, ignore_errors=True)

    def measure(self, cistern):
        seconds = self.options.seconds
        with Client(cistern.socket) as client:
            for number in range(50):
                client.get(f"/hit/{number}")
        self.time(cistern, 2)
        quiet = self.add("nobody slow", self.time(cistern, seconds), cistern, None)
        piece = max(1, round(100 * KB * INTERVAL / seconds))
        for title, kind, count, length, each in [
            ("2,000 uploads of 100 KiB", "upload", 2_000, 100 * KB, piece), ("2,000 uploads of 10 MiB", "upload", 2_000, 10 << 20, piece),
            ("500 downloads of 384 KiB", "download", 500, LENGTH, 4 * KB),
        ]:
            self.crowd(cistern, title, Crowd(cistern.socket, kind, count, length, each, multiprocessing.Queue()), quiet)
        return self.report(seconds)

    def crowd(self, cistern, title, crowd, quiet):
        ended = multiprocessing.Event()
        process = multiprocessing.Process(target=crowd.run, args=(ended,), daemon=True)
        process.start()
        # All of them are there, and some of their content is.
        time.sleep(2)
        measured = self.time(cistern, self.options.seconds)
        during = self.figures(cistern)
        ended.set()
        counts = {}
        for _ in range(crowd.count):
            outcome = crowd.outcomes.get(timeout=30)
            counts[outcome] = counts.get(outcome, 0) + 1
        process.join(10)
        process.kill()
        self.add(title, measured, cistern, quiet, during, counts)
        end = time.monotonic() + 10
        while self.figures(cistern)["held"] > 0 or cistern.metric("cistern_upstream_active_requests") > 0:
            if time.monotonic() > end:
                self.red.append(f"{title}: content is still held, or the upstream still asked, when all slow clients are gone")
                return
            time.sleep(0.1)

    def time(self, cistern, seconds):
        results = multiprocessing.Queue()
        process = multiprocessing.Process(target=others, args=(cistern.socket, seconds, results), daemon=True)
        process.start()
        outcome = results.get(timeout=seconds + 60)
        process.join()
        return outcome

    @staticmethod
    def figures(cistern):
        status = Path(f"/proc/{cistern.child.pid}/status").read_text()
        return {
            "active": cistern.metric("cistern_upstream_active_requests"), "held": cistern.metric("cistern_request_content_held_bytes"),
            "unsent": cistern.metric("cistern_unsent_bytes"), "memory": int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * KB,
        }

    def add(self, title, outcomes, cistern, quiet, during=None, counts=None):
        """Returns the p99 of each kind."""
        during = during or self.figures(cistern)
        slowest = {}
        for kind in ("hit", "miss", "write"):
            times = sorted(took for one, took, _ in outcomes if one == kind)
            wrong = [wrong for one, _, wrong in outcomes if one == kind and wrong]
            slowest[kind] = times[int(len(times) * 0.99)]
            isGood = not wrong and (quiet is None or slowest[kind] <= quiet[kind] + SLOWER)
            if not isGood:
                self.red.append(f"{title}: {kind}: p99 {slowest[kind] * 1000:.1f} ms, {len(wrong)} failed {sorted(set(wrong))}")
            self.rows.append((title, kind, len(times), len(wrong), times[len(times) // 2], slowest[kind], times[-1], isGood))
        clients = ", ".join(f"{count} {outcome}" for outcome, count in sorted((counts or {}).items())) or "-"
        self.rows.append((title, during, clients))
        return slowest

    def report(self, seconds):
        print(f"\n**Slow clients beside {RATE} requests/s of others, {seconds:.0f} s each**\n")
        print("| beside | others | requests | failed | median | p99 | longest | |\n|---|---|---|---|---|---|---|---|")
        for row in (row for row in self.rows if len(row) > 3):
            title, kind, count, wrong, median, slowest, longest, isGood = row
            print(f"| {title} | {kind} | {count} | {wrong} | {median * 1000:.2f} ms | {slowest * 1000:.2f} ms | {longest * 1000:.1f} ms "
                  f"| {'yes' if isGood else '**red**'} |")
        print("\n| beside | at the upstream | content held | unsent | memory | the slow ones |\n|---|---|---|---|---|---|")
        for title, during, clients in (row for row in self.rows if len(row) == 3):
            print(f"| {title} | {during['active']:.0f} | {during['held'] / 2**20:.1f} MiB | {during['unsent'] / 2**20:.1f} MiB "
                  f"| {during['memory'] / 2**20:.0f} MiB | {clients} |")
        for text in self.red:
            print(f"RED {text}")
        print(f"\nothers' p99 at most {SLOWER * 1000:.0f} ms longer, none failed: {'no' if self.red else 'yes'}")
        return 1 if self.red else 0
