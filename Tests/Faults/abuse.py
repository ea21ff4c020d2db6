"""One client abuses TLS and HTTP/2 while others ask for hits. What do they notice of it, and what stays of it?

    faults.py --abuse [--only NAME,...] [--seconds N]

Cistern runs on one core with one event loop, so that nothing can be hidden on another; all others share the second core, those whose time is taken with
real-time priority where that is allowed. They ask for small hits on connections that they keep, in clear and over TLS, and over TLS on new ones. The
bars: their p99 on kept connections stays under 20 ms, none of them fails, and what the abuse took of memory is given back. Each abuse runs as fast as it
can, with Cistern's default limits. On a machine that others use too, start it with `chrt -r 10`.
"""
import multiprocessing
import os
import re
import resource
import selectors
import shutil
import socket
import ssl
import struct
import tempfile
import threading
import time
from pathlib import Path

from origin import Certificates, Origin
from play import Cistern, Client
from rows import answer

PATIENCE = 0.020
# What may stay, of memory that a program gives back in pages and not to the byte.
STAYS = 8 << 20
SMALL, LARGE = "/small", "/large"
LARGE_BYTES = 900 << 10
HALF_OPEN = 10_000
BATCH = 500
# How much the stalled streams ask for: so many connections with so many streams.
STALLED = (50, 100)
METRICS = ["cistern_http2_connections_total", "cistern_http2_requests_total", "cistern_http2_resets_total", "cistern_http2_connections_ended_total",
           "cistern_tls_handshakes_total", "cistern_tls_handshakes_failed_total", "cistern_connections_timed_out_total", "cistern_upstream_requests_total"]


def frame(kind, flags, stream, content=b""):
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


DATA, HEADERS, RESET, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def fields(path, method=b"\x82"):
    """GET, https, an authority and a path that is in no table."""
    return method + b"\x87\x01\x0acistern.it\x04" + bytes([len(path)]) + path


def requests(flags=END_STREAM | END_HEADERS, path=b"/forward"):
    """Streams 1, 3, 5, …"""
    for number in range(1, 1 << 30, 2):
        yield number, frame(HEADERS, flags, number, fields(path))


# What each abuse sends on a connection, batch by batch, after the preface.

def rapid_reset():
    return (whole + frame(RESET, 0, number, struct.pack(">I", 8)) for number, whole in requests())


def made_you_reset():
    """A window update by nothing makes the server reset the stream (CVE-2025-8671)."""
    return (whole + frame(WINDOW_UPDATE, 0, number, b"\0\0\0\0") for number, whole in requests())


def continuation():
    """A section that never ends."""
    yield frame(HEADERS, END_STREAM, 1, fields(b"/forward"))
    while True:
        yield frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\x81\x7d" + b"v" * 508)


def empty_continuation():
    yield frame(HEADERS, END_STREAM, 1, fields(b"/forward"))
    while True:
        yield frame(CONTINUATION, 0, 1)


def settings():
    while True:
        yield frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535))


def ping():
    while True:
        yield frame(PING, 0, 0, b"12345678")


def empty_data():
    yield frame(HEADERS, END_HEADERS, 1, fields(b"/forward", b"\x83"))
    while True:
        yield frame(DATA, 0, 1)


FLOODS = {
    "rapid reset": rapid_reset, "made-you-reset": made_you_reset, "CONTINUATION": continuation, "empty CONTINUATION": empty_continuation,
    "SETTINGS": settings, "PING": ping, "empty DATA": empty_data,
}


def tls(protocol="h2"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


def flood(port, name, ended, done):
    """Sends as fast as it goes, and connects again when the connection is ended."""
    context = tls()
    batches = []
    source = FLOODS[name]()
    for _ in range(40):
        batches.append(b"".join(one for one, _ in zip(source, range(BATCH))))
    while not ended.is_set():
        try:
            with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=5)) as one:
                one.settimeout(2)
                one.sendall(PREFACE + frame(SETTINGS, 0, 0))
                for batch in batches:
                    one.sendall(batch)
                    done.value += BATCH
                    if ended.is_set():
                        break
                # What it is told at the end: who goes without reading is not ended by the server.
                while not ended.is_set() and one.recv(65_536):
                    pass
        except OSError:
            pass


def half_open(port, name, ended, done):
    """So many connections at a time that say nothing, or the beginning of a ClientHello, or all of it and nothing more."""
    selector = selectors.DefaultSelector()
    hello = client_hello()
    kinds = [b"", hello[:60], hello]
    open_now = []
    while not ended.is_set():
        while len(open_now) < HALF_OPEN and not ended.is_set():
            one = socket.socket()
            one.bind(("127.0.0.2", 0))
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            selector.register(one, selectors.EVENT_WRITE, kinds[done.value % len(kinds)])
            open_now.append(one)
            done.value += 1
            if done.value % 100 == 0:
                say(selector, 0)
        say(selector, 0.01)
        open_now = [one for one in open_now if one.fileno() >= 0 and not is_ended(one)]
    for one in open_now:
        one.close()


def say(selector, timeout):
    for key, _ in selector.select(timeout):
        selector.unregister(key.fileobj)
        try:
            key.fileobj.send(key.data) if key.data else None
        except OSError:
            pass


def is_ended(one):
    try:
        while one.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    one.close()
    return True


def client_hello():
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = tls().wrap_bio(into, out, server_hostname="localhost")
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def stalls(port, name, ended, done):
    """Streams that ask for much and take nothing of it: no window at all, or one byte at a time."""
    context, held = tls(), []
    connections, streams = STALLED
    while not ended.is_set():
        if len(held) == connections:
            time.sleep(0.05)
            trickle(held)
            continue
        try:
            one = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=5))
            one.settimeout(2)
            asked = b"".join(whole for (_, whole), _ in zip(requests(path=LARGE.encode()), range(streams)))
            one.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + asked)
            held.append(one)
            done.value += streams
        except OSError:
            time.sleep(0.01)
    for one in held:
        one.close()


def trickle(held):
    for one in held:
        try:
            one.sendall(frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"))
        except OSError:
            one.close()
    held[:] = [one for one in held if one.fileno() >= 0]


def others(ports, seconds, results):
    """Hits by the clock: what each took, {kind: [seconds]}, and what went wrong."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError:
        pass
    context = tls("http/1.1")

    def connect(kind):
        one = socket.create_connection(("127.0.0.1", ports[kind != "clear"]), timeout=10)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return one if kind == "clear" else context.wrap_socket(one)

    # Those that fail are made again when they are needed.
    kept = {}
    taken, wrong = {"clear": [], "TLS": [], "new over TLS": []}, []
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turn += 1
        for kind in ["clear", "TLS"] + ["new over TLS"] * (turn % 10 == 0):
            began = time.monotonic()
            try:
                one = kept.pop(kind, None) or connect(kind)
                one.sendall(b"GET %b HTTP/1.1\r\nHost: cistern.it\r\n\r\n" % SMALL.encode())
                got = one.recv(65_536)
                if not got.startswith(b"HTTP/1.1 200"):
                    raise OSError(repr(got[:40]))
                if kind == "new over TLS":
                    one.close()
                else:
                    kept[kind] = one
            except OSError as error:
                wrong.append(f"{kind}: {error}")
            taken[kind].append(time.monotonic() - began)
        time.sleep(0.002)
    results.put((taken, wrong))


class Abuse:
    def __init__(self, options):
        self.options, self.red = options, []

    def run(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        self.directory = tempfile.mkdtemp(prefix="cistern-abuse-")
        os.sched_setaffinity(0, {os.cpu_count() - 1})
        origin = Origin()
        content = {SMALL: b'{"id":1}', LARGE: b'"%b"' % (b"x" * LARGE_BYTES)}
        origin.good(lambda target: answer(content.get(target.decode(), b"{}"),
                                          fields=b"Cache-Control: max-age=3600\r\n" if target.decode() in content else b"Cache-Control: no-store\r\n"))
        certificates = Certificates(self.directory)
        self.ports = [free_port(), free_port()]
        arguments = ["--listen", f"127.0.0.1:{self.ports[0]}", "--listen", f"https://127.0.0.1:{self.ports[1]}", "--set",
                     f"tls.certificates={certificates.file('good.pem')}:{certificates.file('good.key')}", "--cache-size", "64MiB"]
        self.cistern = Cistern(self.options.cistern, f"http://127.0.0.1:{origin.port}", self.directory, arguments)
        for thread in os.listdir(f"/proc/{self.cistern.child.pid}/task"):
            os.sched_setaffinity(int(thread), {0})
        try:
            return self.measure()
        finally:
            self.cistern.kill()
            origin.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def measure(self):
        for target in (SMALL, LARGE):
            with Client(self.cistern.socket) as client:
                client.get(target)
        plays = {**{name: flood for name in FLOODS}, "half-open handshakes": half_open, "window stalls": stalls}
        if self.options.only:
            plays = {name: play for name, play in plays.items() if any(part in name for part in self.options.only.split(","))}
        print("\n| beside | sent | clear hits: median, p99 | TLS hits: median, p99 | on new TLS connections: median, p99 | memory before, peak, afterwards | |")
        print("|---|---|---|---|---|---|---|")
        # The memory of the first of each kind of work stays.
        self.time(1)
        self.row("nobody", None, 0, self.time(self.options.seconds), (self.memory(),) * 3)
        self.told = []
        for name, play in plays.items():
            self.play(name, play)
        print("\n| abuse | what metrics tell of it |\n|---|---|")
        for name, text in self.told:
            print(f"| {name} | {text} |")
        for text in self.red:
            print(f"RED {text}")
        print(f"\nothers' p99 under {PATIENCE * 1000:.0f} ms, none failed, memory given back: {'no' if self.red else 'yes'}")
        return 1 if self.red else 0

    def play(self, name, play):
        before, counted = self.memory(), self.figures()
        ended, done = multiprocessing.Event(), multiprocessing.Value("q", 0, lock=False)
        process = multiprocessing.Process(target=play, args=(self.ports[1], name, ended, done), daemon=True)
        process.start()
        time.sleep(0.5)
        peak, over = [before], threading.Event()
        watcher = threading.Thread(target=self.watch, args=(peak, over))
        watcher.start()
        outcome = self.time(self.options.seconds)
        ended.set()
        process.join(20)
        process.kill()
        over.set()
        watcher.join()
        self.tell(name, counted)
        after = self.rest(before)
        self.row(name, name, done.value, outcome, (before, max(peak), after))

    def time(self, seconds):
        results = multiprocessing.Queue()
        process = multiprocessing.Process(target=others, args=(self.ports, seconds, results), daemon=True)
        process.start()
        outcome = results.get(timeout=seconds + 90)
        process.join()
        return outcome

    def watch(self, peak, over):
        while not over.wait(0.05):
            peak[0] = max(peak[0], self.memory())

    def rest(self, before):
        """What is left when the abuser has gone for a while."""
        end = time.monotonic() + 15
        while self.memory() > before + STAYS and time.monotonic() < end:
            time.sleep(0.2)
        time.sleep(1)
        return self.memory()

    def memory(self):
        return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.cistern.child.pid}/status").read_text())[1]) * 1024

    def figures(self):
        page = self.cistern.get("/metrics").content.decode()
        return {match[1]: float(match[2]) for match in re.finditer(r"^(cistern_\S+) (\S+)$", page, re.MULTILINE)}

    def tell(self, name, before):
        after = self.figures()
        changed = [(key, value - before.get(key, 0)) for key, value in after.items() if any(key.split("{")[0] == one for one in METRICS)]
        self.told.append((name, ", ".join(f"{key.removeprefix('cistern_')} {value:,.0f}" for key, value in changed if value)))

    def row(self, title, abuse, sent, outcome, memory):
        taken, wrong = outcome
        cells, isGood = [], True
        for kind, times in taken.items():
            times = sorted(times)
            slowest = times[int(len(times) * 0.99)] if times else 0
            cells.append(f"{times[len(times) // 2] * 1000:.2f}, {slowest * 1000:.2f} ms" if times else "-")
            if kind != "new over TLS" and slowest > PATIENCE:
                isGood = False
                self.red.append(f"{title}: p99 of hits, {kind}: {slowest * 1000:.1f} ms")
        if wrong:
            isGood = False
            self.red.append(f"{title}: {len(wrong)} failed: {sorted(set(wrong))[:3]}")
        if memory[2] > memory[0] + STAYS:
            isGood = False
            self.red.append(f"{title}: {(memory[2] - memory[0]) / 2**20:.1f} MiB of memory stay")
        print(f"| {title} | {sent:,} | {' | '.join(cells)} | {', '.join(f'{one / 2**20:.1f}' for one in memory)} MiB | {'yes' if isGood else '**red**'} |", flush=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
