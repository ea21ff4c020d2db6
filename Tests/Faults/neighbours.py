"""A part of the upstream fails beside neighbours that are well: do these get anything but what they would get without the failure memory?
And a true outage: how fast copies go out, how often the upstream is tried, and how soon everything is as before.

The origin is a process of its own. What it does with a request stands in the request's field X-Play; without one it answers well.
"""
import asyncio
import json
import multiprocessing
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from long_polls import LongPolls, POLLS
from names import Names
from play import Client, Wrong

# Neighbours' requests in each cell: so many that all cells have 50,000.
NEIGHBOURS = 1_900
CONTROL = 300
SHARES = (10, 50, 90)
FAULTS = ("503", "429 wait", "503 wait", "cut", "junk", "hang", "slow", "reset", "one user's POST", "one user")
# One client's requests, which differ from its neighbours' in their arguments only.
ATTACKS = ("503", "429 wait", "503 wait", "cut", "junk", "hang", "slow", "reset", "login", "500")
ARGUMENTS = ("/f/1?evil={id}", "/f/2?evil=1")
# All neighbours ask by addresses of their own, as a trusted proxy tells.
ATTACKER = "X-Forwarded-For: 198.51.100.9\r\n"
OUTAGES = ("refused", "unresolved", "hang", "503")
# Seconds. Shorter than the product's defaults where the run would take too long.
SOFT, FIRST_BYTE, WINDOW, RECHECK = 0.5, 2.0, 2.0, 1.0
OUTAGE = 6.0
RATE = 200
# The bars.
SLOWEST, RETURN, GROWTH = 0.005, 1.0, 4 << 20
# For a noisy machine, in seconds.
TOLERANCE = 0.15
# Requests to what fails that are under way at once.
BAD_AT_ONCE = 48
PATIENCE = 8


def page(target):
    return json.dumps({"target": target, "text": "t" * 200}).encode()


def response(content, status=b"200 OK", fields=b""):
    return b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(content) + fields + b"\r\n" + content


class OriginSide(asyncio.Protocol):
    """One connection of the origin's."""
    mode = ""
    everyone = set()

    def connection_made(self, transport):
        self.transport, self.held = transport, b""
        self.everyone.add(self)

    def connection_lost(self, _):
        self.everyone.discard(self)

    def data_received(self, data):
        self.held += data
        while (end := self.held.find(b"\r\n\r\n")) >= 0:
            head = self.held[:end + 2]
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)\r\n", head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self.held) < whole:
                return
            self.held = self.held[whole:]
            play = re.search(rb"(?i)\r\nx-play: *([^\r]*)\r\n", head)
            self.answer(head.split(b" ", 2)[1].decode(), OriginSide.mode or (play[1].decode() if play else ""))

    def answer(self, target, play):
        good = response(page(target))
        write = self.transport.write
        match play:
            case "": write(good)
            case "503": write(response(b"{}", b"503 No"))
            case "429 wait": write(response(b"{}", b"429 No", b"Retry-After: 300\r\n"))
            case "503 wait": write(response(b"{}", b"503 No", b"Retry-After: 300\r\n"))
            case "junk": write(response(b"<p>"))
            case "500": write(response(b"{}", b"500 No"))
            case "login": write(response(b"", b"302 Found", b"Location: https://login.test/\r\n"))
            case "slow": asyncio.get_running_loop().call_later(2 * SOFT, lambda: self.transport.is_closing() or write(good))
            case "poll": asyncio.get_running_loop().call_later(FIRST_BYTE / 2, lambda: self.transport.is_closing() or write(good))
            case "hang": pass
            case "cut":
                write(good[:-50])
                self.transport.close()
            case "reset": self.transport.abort()


def serve_origin(port, control):
    """- Parameter control: a pipe that says what is done with every request; "down" and "up"."""
    async def run():
        loop = asyncio.get_running_loop()

        def listen():
            sock = bound(port)
            return loop.create_server(OriginSide, sock=sock, backlog=512)

        server = await listen()
        while (word := await loop.run_in_executor(None, control.recv)) != "end":
            if word == "down":
                server.close()
                for side in list(OriginSide.everyone):
                    side.transport.abort()
            elif word == "up":
                OriginSide.mode = ""
                server = server if server.is_serving() else await listen()
                # Whoever was kept waiting hears nothing more.
                for side in list(OriginSide.everyone):
                    side.transport.abort()
            else:
                OriginSide.mode = word
            control.send("done")
    asyncio.run(run())


def bound(port):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock


class Origin:
    def __init__(self):
        # Keeps the port while the origin is down.
        self.placeholder = bound(0)
        self.port = self.placeholder.getsockname()[1]
        self.control, theirs = multiprocessing.Pipe()
        self.child = multiprocessing.Process(target=serve_origin, args=(self.port, theirs), daemon=True)
        self.child.start()

    def say(self, word):
        self.control.send(word)
        self.control.recv()

    def close(self):
        self.control.send("end")
        self.child.join(5)
        self.child.kill()
        self.placeholder.close()


class Cistern:
    def __init__(self, options, origin, directory, remembers=True, names=None):
        self.socket = os.path.join(directory, "socket")
        self.log = os.path.join(directory, "log")
        host = names.host if names else "127.0.0.1"
        milliseconds = lambda seconds: f"{int(seconds * 1000)}ms"
        command = [options.cistern, "serve", "--upstream", f"http://{host}:{origin.port}", "--listen", f"unix:{self.socket}",
                   "--cache-dir", os.path.join(directory, "store"), "--cache-size", "32MiB", "--shards", "2", "--log-level", "info",
                   "--set", "trusted_proxies=unix:"]
        for setting, value in (("failure.window", milliseconds(WINDOW)),
                               ("failure.recheck", milliseconds(RECHECK) if remembers else "0"), ("cache.rescue_after", milliseconds(SOFT)),
                               ("upstream.first_byte_timeout", milliseconds(FIRST_BYTE))):
            command += ["--set", f"{setting}={value}"]
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(names.wrap(command) if names else command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if self.get("/healthz").status == 200:
                    return
            except OSError:
                time.sleep(0.02)
        raise Wrong(f"the proxy does not start: {Path(self.log).read_text()[-400:]}")

    def get(self, target):
        with Client(self.socket) as client:
            return client.get(target)

    def metric(self, name):
        """The sum over all labels that begin as the name does."""
        text = self.get("/metrics").content.decode()
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE))

    def memory(self):
        return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.child.pid}/status").read_text())[1]) * 1024

    def log_lines(self):
        return Path(self.log).read_bytes().count(b"\n")

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Connection:
    """A client's connection that is opened anew where it has ended."""

    def __init__(self, path):
        self.path, self.reader, self.writer = path, None, None

    async def ask(self, method, target, fields="", content=None):
        """Status, Cache-Status and content; nothing where the connection ended."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_unix_connection(self.path)
        body = content or b""
        length = f"Content-Length: {len(body)}\r\n" if content is not None else ""
        try:
            self.writer.write(f"{method} {target} HTTP/1.1\r\nHost: a\r\n{length}{fields}\r\n".encode() + body)
            head = await self.reader.readuntil(b"\r\n\r\n")
            status = int(head[9:12])
            got = re.search(rb"(?i)\r\ncontent-length: *(\d+)\r\n", head)
            text = await self.reader.readexactly(int(got[1])) if got else b""
            said = re.search(rb"(?i)\r\ncache-status: *([^\r]*)\r\n", head)
            if not got or b"onnection: close" in head:
                self.close()
            return status, said[1].decode() if said else "", text
        except (asyncio.IncompleteReadError, OSError, asyncio.TimeoutError, asyncio.CancelledError):
            self.close()
            raise

    def close(self):
        if self.writer:
            self.writer.close()
        self.writer = None


def is_fresh(answer, target):
    """From the upstream, whole: what one gets from one that is well, without any memory."""
    status, said, content = answer
    return status == 200 and content == page(target) and "; hit" not in said and "fwd-status" not in said


class Cell:
    """One fault at one share of the traffic, beside neighbours."""

    def __init__(self, cistern, fault, share, wanted, paths=("/f/bad",)):
        self.cistern, self.fault, self.share, self.wanted, self.paths = cistern, fault, share, wanted, paths
        self.count = self.bad = 0
        self.different = []
        # The soft deadline passed on a path that is well: this machine was busy. It is the same without the memory.
        self.late = 0
        self.chance = random.Random(f"{fault} {share}")
        self.bad_tasks = set()

    async def run(self):
        self.free = [Connection(self.cistern.socket) for _ in range(BAD_AT_ONCE)]
        prime = Connection(self.cistern.socket)
        users = ["", "Authorization: Bearer bad\r\n", "Authorization: Bearer good\r\n"]
        bad = [path for path in self.paths if "{id}" not in path]
        for target in [f"/{family}/{number}" for family in "fg" for number in range(20)] + bad + ["/login"]:
            for user in users:
                await prime.ask("GET", target, user)
        await asyncio.gather(*(self.neighbour(number) for number in range(8)))
        for task in self.bad_tasks:
            task.cancel()
        await asyncio.gather(*self.bad_tasks, return_exceptions=True)
        for connection in self.free + [prime]:
            connection.close()

    def start_bad(self):
        """What fails has its share of the traffic, as far as it is not kept busy by its own slowness."""
        self.bad += 1
        if self.free:
            task = asyncio.create_task(self.ask_bad(self.free.pop()))
            self.bad_tasks.add(task)
            task.add_done_callback(self.bad_tasks.discard)

    async def ask_bad(self, connection):
        user, method, target = "", "GET", self.chance.choice(self.paths)
        play = self.fault
        if self.fault == "one user's POST":
            user, method, target, play = "Authorization: Bearer bad\r\n", "POST", "/login", "503 wait"
        elif self.fault == "one user":
            user, target, play = "Authorization: Bearer bad\r\n", f"/f/{self.chance.randrange(20)}", "503"
        if target.endswith("{id}"):
            target = target.replace("{id}", str(self.chance.randrange(10_000)))
        try:
            async with asyncio.timeout(2 * SOFT):
                await connection.ask(method, target, f"{user}{ATTACKER}X-Play: {play}\r\n", b"{}" if method == "POST" else None)
        except (asyncio.IncompleteReadError, OSError, asyncio.TimeoutError, ValueError):
            pass
        finally:
            self.free.append(connection)

    async def neighbour(self, number):
        connection = Connection(self.cistern.socket)
        owed = 0.0
        while self.count < self.wanted:
            self.count += 1
            owed += self.share / (100 - self.share)
            while owed >= 1:
                owed -= 1
                self.start_bad()
            method, target, user = self.pick(self.count)
            user += f"X-Forwarded-For: 192.0.2.{number + 1}\r\n"
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await connection.ask(method, target, user, b"{}" if method == "POST" else None)
            except (asyncio.IncompleteReadError, OSError, asyncio.TimeoutError) as error:
                answer = (0, repr(error), b"")
            if answer[0] == 200 and answer[1].endswith("detail=slow"):
                self.late += 1
            elif not is_fresh(answer, target):
                self.different.append(f"{method} {target}: {answer[0]} {answer[1]}")
        connection.close()

    def pick(self, number):
        """Stored ones of the same family and of another, new ones, writes; with credentials and without."""
        user = "Authorization: Bearer good\r\n" if self.chance.random() < 0.3 else ""
        match number % 5:
            case 0: return "GET", f"/f/{self.chance.randrange(20)}", user
            case 1: return "GET", f"/g/{self.chance.randrange(20)}", user
            case 2: return "GET", f"/{self.chance.choice('fg')}/new-{number}", user
            case 3: return "POST", f"/{self.chance.choice('fg')}/{self.chance.randrange(20)}", user
        if self.fault.startswith("one user"):
            return self.chance.choice(["GET", "POST"]), "/login", user
        return "GET", f"/g/{self.chance.randrange(20)}", user


class Neighbours:
    def __init__(self, options):
        self.options = options
        self.names = Names()
        self.isRed = False
        self.examples = []

    def run(self):
        began = time.monotonic()
        self.origin = Origin()
        try:
            total, different, bad = self.cells()
            self.long_polls()
            self.outages()
        finally:
            self.origin.close()
        for text in self.examples[:10]:
            print(f"RED {text}")
        print(f"\n{total:,} neighbours' requests beside {bad:,} to what fails, {different} different; "
              f"{'RED' if self.isRed else 'all bars hold'}; {time.monotonic() - began:.0f} s")
        return 1 if self.isRed else 0

    def with_cistern(self, work, **settings):
        directory = tempfile.mkdtemp(prefix="cistern-neighbours-")
        try:
            cistern = Cistern(self.options, self.origin, directory, **settings)
            try:
                return work(cistern)
            finally:
                cistern.stop()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def cell(self, fault, share, wanted, remembers=True, paths=("/f/bad",)):
        def work(cistern):
            cell = Cell(cistern, fault, share, wanted, paths)
            memory, began = cistern.memory(), time.monotonic()
            asyncio.run(cell.run())
            cell.seconds = time.monotonic() - began
            cell.opened = cistern.metric("cistern_failure_scopes_opened_total")
            cell.lines, cell.grown = cistern.log_lines(), cistern.memory() - memory
            return cell
        return self.with_cistern(work, remembers=remembers)

    def cells(self):
        print("\n**One part fails, its neighbours are well**\n\n| fault | of the traffic | neighbours | different | late | without memory | "
              "scopes opened | log lines | memory |\n|---|---|---|---|---|---|---|---|---|")
        plays = [(fault, share, ("/f/bad",)) for fault in FAULTS for share in SHARES]
        plays += [(fault, 50, ARGUMENTS) for fault in ATTACKS]
        plays += [("503", 50, ("/orders/{id}",)), ("hang", 50, ("/orders/{id}",)), ("hang", 50, ("/f/bad", "/h/bad"))]
        total = different = bad = 0
        for fault, share, paths in plays:
            cell = self.cell(fault, share, NEIGHBOURS, paths=paths)
            control = self.cell(fault, share, CONTROL, remembers=False, paths=paths)
            total, different, bad = total + cell.count, different + len(cell.different), bad + cell.bad
            # Lines of the log: as many as there are at the start, and so many of each kind in a minute.
            isGood = not cell.different and cell.lines <= 10 + 50 * (1 + cell.seconds // 60)
            self.isRed |= not isGood
            self.examples += [f"{fault} at {share} %: {text}" for text in cell.different[:3]]
            place = "" if paths == ("/f/bad",) else f" on {' and '.join(paths)}"
            print(f"| {fault}{place} | {share} % | {cell.count:,} | {len(cell.different)}{'' if isGood else ' **red**'} | {cell.late} | "
                  f"{len(control.different)} of {control.count} | {cell.opened:.0f} | {cell.lines} | {cell.grown / 2**20:+.1f} MB |", flush=True)
        return total, different, bad

    def long_polls(self):
        def work(cistern):
            play = LongPolls(cistern, Connection, is_fresh, NEIGHBOURS)
            asyncio.run(play.run())
            return play
        play = self.with_cistern(work)
        self.isRed |= bool(play.failed)
        self.examples += [f"long polls: {text}" for text in play.failed[:3]]
        print(f"\n**Slow and well.** Beside two families of {POLLS} long polls ({play.polled:,} in all): {play.count:,} requests of others; "
              f"{len(play.failed)} of all failed", flush=True)

    # A true outage

    def outages(self):
        print("\n**All fails**\n\n| outage | known after | rescue p99 | own page p99 | tried | memory | a second after the return |"
              "\n|---|---|---|---|---|---|---|")
        for kind in OUTAGES:
            if kind == "unresolved" and not self.names.works("unknown"):
                print(f"| {kind} | needs unshare: skipped | | | | | |")
                continue
            directory = tempfile.mkdtemp(prefix="cistern-names-")
            try:
                names = self.names.make(directory) if kind == "unresolved" else None
                self.with_cistern(lambda cistern: self.outage(cistern, kind, names), names=names)
            finally:
                shutil.rmtree(directory, ignore_errors=True)

    def begin_outage(self, kind, names):
        if kind == "unresolved":
            names.set("unknown")
            # What is connected stays so: it has to go.
            self.origin.say("down")
        else:
            self.origin.say({"refused": "down"}.get(kind, kind))

    def end_outage(self, kind, names):
        if names:
            names.set("known")
        self.origin.say("up")

    def outage(self, cistern, kind, names):
        targets = [f"/{family}/{number}" for family in "abcde" for number in range(100)]
        with Client(cistern.socket) as client:
            for target in targets:
                client.get(target)
        self.begin_outage(kind, names)
        known = asyncio.run(self.until_known(cistern, targets))
        tried, memory = self.tries(cistern), cistern.memory()
        took, own, wrong = asyncio.run(self.rescues(cistern, targets, OUTAGE))
        tried, grown = self.tries(cistern) - tried, cistern.memory() - memory
        self.end_outage(kind, names)
        time.sleep(RETURN + TOLERANCE)
        after = asyncio.run(self.first_requests(cistern, targets))
        # Checks begin quickly, and fall to one in a recheck.
        allowed = int(OUTAGE / RECHECK) + 6
        bars = [(took <= SLOWEST + own, f"a rescue took {took * 1000:.1f} ms"), (tried <= allowed, f"tried {tried:.0f} times"),
                (grown <= GROWTH, f"memory grew by {grown >> 10} KB"), (not after, f"after the return: {after}"), (not wrong, f"{wrong}")]
        self.isRed |= not all(isGood for isGood, _ in bars)
        self.examples += [f"{kind}: {text}" for isGood, text in bars if not isGood]
        print(f"| {kind} | {known:.1f} s | {took * 1000:.2f} ms | {own * 1000:.2f} ms | {tried:.0f} of {allowed} in {OUTAGE:.0f} s | "
              f"{grown / 2**20:+.1f} MB | {after or 'all as before'} |", flush=True)

    @staticmethod
    def tries(cistern):
        return cistern.metric("cistern_upstream_requests_total") + cistern.metric("cistern_connection_attempts_total")

    async def until_known(self, cistern, targets):
        """Clients go on asking until it is known."""
        began, ended = time.monotonic(), asyncio.Event()

        async def ask(number):
            connection, chance = Connection(cistern.socket), random.Random(number)
            while not ended.is_set():
                await connection.ask("GET", chance.choice(targets))
                await asyncio.sleep(0.02)
            connection.close()
        tasks = [asyncio.create_task(ask(number)) for number in range(16)]
        while await asyncio.to_thread(cistern.metric, "cistern_upstream_up") == 1:
            if time.monotonic() > began + 30:
                raise Wrong("the outage does not become known")
            await asyncio.sleep(0.05)
        ended.set()
        await asyncio.gather(*tasks)
        return time.monotonic() - began

    async def rescues(self, cistern, targets, seconds):
        """The 99th percentiles of rescues and of an own page beside them, in seconds, and what was wrong."""
        times, own, wrong = [], [], []
        end = time.monotonic() + seconds

        async def ask(number):
            connection, chance = Connection(cistern.socket), random.Random(number)
            due = time.monotonic() + number / RATE
            while due < end:
                await asyncio.sleep(max(0, due - time.monotonic()))
                target, sent = chance.choice(targets), time.monotonic()
                status, said, content = await connection.ask("GET", target)
                times.append(time.monotonic() - sent)
                if status != 200 or content != page(target):
                    wrong.append(f"{target}: {status} {said}")
                due = max(due + 8 / RATE, time.monotonic() - 8 / RATE)
            connection.close()

        async def compare():
            connection = Connection(cistern.socket)
            while time.monotonic() < end:
                sent = time.monotonic()
                await connection.ask("GET", "/healthz")
                own.append(time.monotonic() - sent)
                await asyncio.sleep(0.02)
            connection.close()
        await asyncio.gather(compare(), *(ask(number) for number in range(8)))
        ninety_nine = lambda values: sorted(values)[int(len(values) * 0.99)]
        return ninety_nine(times), ninety_nine(own), wrong[:3]

    async def first_requests(self, cistern, targets):
        """A write, a stored one and a new one; what was not as before."""
        connection, wrong = Connection(cistern.socket), []
        for method, target in (("POST", "/a/1"), ("GET", targets[7]), ("GET", targets[-1]), ("GET", "/a/new")):
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await connection.ask(method, target, content=b"{}" if method == "POST" else None)
            except (asyncio.IncompleteReadError, OSError, asyncio.TimeoutError) as error:
                answer = (0, repr(error), b"")
            if not is_fresh(answer, target):
                wrong.append(f"{method} {target}: {answer[0]} {answer[1]}")
        connection.close()
        return "; ".join(wrong)
