"""A day of a fleet: three nodes, each with a wire of its own to a primary with a replica, clients at each who know what they may see, and one who purges."""
import asyncio
import collections
import contextlib
import http.client
import json
import random
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

from fleet import Client, Node, ask, free_port, until

BLIND_LIMIT = 3
# Seconds: a node notices within 1.5 that it is cut off; the rest is for a busy machine.
NOTICED = 2
# Seconds, and megabytes of one node's own memory.
LONGEST, MEMORY = 2, 160
USERS = (None, "ann", "bob")


class Wire:
    """Between a node and the engine. It can hold back what goes either way, as a network that is split does until it delivers; be slow; forget the
    connections that it has, and tell nobody; or lead elsewhere."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    def __init__(self, to):
        self.to, self.port, self.held, self.delay, self.connections = to, free_port(), set(), 0, []
        asyncio.run_coroutine_threadsafe(asyncio.start_server(self.accept, "127.0.0.1", self.port), self.loop).result()

    async def accept(self, reader, writer):
        connection = SimpleNamespace(is_forgotten=False)
        self.connections.append(connection)
        with contextlib.suppress(OSError):
            await self.passes("to", connection)
            engine_reader, engine_writer = await asyncio.open_connection("127.0.0.1", self.to)
            await asyncio.gather(
                self.carry(reader, engine_writer, "to", connection), self.carry(engine_reader, writer, "from", connection), return_exceptions=True)
            engine_writer.close()
        writer.close()

    async def passes(self, way, connection):
        while way in self.held or connection.is_forgotten:
            await asyncio.sleep(0.01)

    async def carry(self, source, sink, way, connection):
        try:
            while data := await source.read(65536):
                await self.passes(way, connection)
                if way == "from" and self.delay:
                    await asyncio.sleep(self.delay)
                sink.write(data)
                await sink.drain()
        finally:
            await self.passes(way, connection)
            sink.close()

    def forget(self):
        for connection in self.connections:
            connection.is_forgotten = True


class Server:
    """A server of Redis or Valkey that writes down what it has."""

    def __init__(self, day, *words):
        self.day, self.port, self.program, self.words = day, free_port(), day.ground.options.server, words
        self.directory = Path(tempfile.mkdtemp(prefix="engine-", dir=day.ground.directory))
        self.start()

    def start(self, *before):
        self.process = self.day.ground.child(
            [*before, self.program, "--port", str(self.port), "--save", "", "--appendonly", "yes", "--repl-diskless-sync-delay", "0", "--dir", self.directory,
             *self.words], stdout=open(self.directory / "log", "a"), stderr=subprocess.STDOUT)
        until("the engine does not start", 10, lambda: self.ask("ping") == "PONG")

    def ask(self, *words):
        return ask(self.port, *words)

    def figure(self, name):
        return int(re.search(rf"^{name}:(\d+)", self.ask("info"), re.M)[1])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def forget_clients(self):
        """So that all have to say again who they are."""
        self.ask("client", "kill", "type", "normal")


class Watch:
    """What is known of one node from outside: whether it sees the log, since when, and its memory."""

    def __init__(self, day, node):
        self.day, self.node, self.since, self.memory, self.gaps, self.pending, self.is_paused = day, node, None, 0, 0, [], False

    def run(self):
        client = Client(self.node.port)
        while not self.day.is_over.is_set():
            self.day.is_over.wait(0.1)
            if self.is_paused:
                continue
            began, waiting = time.monotonic(), list(self.pending)
            try:
                page = client.get("/metrics")[1].decode()
                status = Path(f"/proc/{self.node.process.pid}/status").read_text()
            except (OSError, http.client.HTTPException):
                self.since = None
                continue

            def figure(name):
                return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.M))

            self.since = (self.since or began) if figure("cistern_share_seeing") == 1 else None
            self.memory = max(self.memory, int(re.search(r"^RssAnon:\s+(\d+)", status, re.M)[1]) / 1024)
            self.gaps = figure("cistern_share_gaps_total")
            if waiting and figure("cistern_share_pending_purges") == 0:
                self.day.told(waiting)
                del self.pending[:len(waiting)]


class Day:
    """What was purged, and what clients were given after it."""

    def __init__(self, ground, name, gaps=False, words=(), settings=(), before=((), (), ())):
        self.ground, self.name, self.has_gaps, self.settings = ground, name, gaps, settings
        self.wrong, self.times, self.errors, self.purges = collections.Counter(), [], [], 0
        self.lock, self.is_over = threading.Lock(), threading.Event()
        # By target: the versions that were purged, and since when every node that sees the log has to obey it.
        self.purged = collections.defaultdict(list)
        self.late = {True: 0, False: 0}
        self.pended = 0
        self.primary = Server(self, *words)
        self.replica = Server(self, *words, "--replicaof", "127.0.0.1", str(self.primary.port))
        until("the replica does not follow", 20, lambda: "master_link_status:up" in self.replica.ask("info", "replication"))
        self.prepare()
        self.wires, self.nodes = [Wire(self.port) for _ in before], []
        for wire, words in zip(self.wires, before):
            self.nodes.append(self.node(wire, before=words))

    port = property(lambda self: self.primary.port)

    def prepare(self):
        """Before there are nodes."""

    def node(self, wire, *settings, before=(), scheme="redis"):
        settings = [f"servers={scheme}://127.0.0.1:{wire.port}", f"secret_file={self.ground.secret}", f"blind_limit={BLIND_LIMIT}s", "timeout=50ms",
                    *self.settings, *settings]
        node = Node(self.ground, *(word for setting in settings for word in ("--set", f"share.{setting}")), before=before)
        self.ground.children.append(node.process)
        return node

    # Who asks

    def __enter__(self):
        self.watches = [Watch(self, node) for node in self.nodes]
        for node in self.nodes:
            until("a node does not see the log", 20, node.sees)
        self.threads = [threading.Thread(target=run, args=words) for watch in self.watches for run, words in (
            (watch.run, ()), (self.client, (watch, 0)), (self.client, (watch, 1)))] + [threading.Thread(target=self.purger)]
        for thread in self.threads:
            thread.start()
        # A store that is filled, and purges that were obeyed.
        time.sleep(1)
        return self

    def client(self, watch, number):
        client, own = Client(watch.node.port), f"/own/{watch.node.port}/{number}"
        while not self.is_over.is_set():
            self.is_over.wait(0.01)
            if watch.is_paused:
                continue
            kind, user = random.choice("aaaabc"), random.choice(USERS)
            try:
                if kind == "a":
                    self.look(watch, client, f"/all/{random.randrange(20)}", None)
                elif kind == "b":
                    self.look(watch, client, f"/mine/{random.randrange(3)}", user)
                else:
                    version = json.loads(client.ask("PUT", own)[1])["version"]
                    self.look(watch, client, own, None, version)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not watch.is_paused:
                    self.complain("errors", f"{watch.node.port}: {error!r}")

    def complain(self, what, sentence):
        with self.lock:
            self.wrong[what] += 1
            if self.wrong[what] <= 3:
                self.errors.append(f"{what}: {sentence}")

    def look(self, watch, client, path, user, version=0):
        began = time.monotonic()
        status, content = client.ask("GET", path, {"Authorization": user} if user else {})
        self.times.append(time.monotonic() - began)
        if status != 200:
            return self.complain("errors", f"{path}: {status}")
        said = json.loads(content)
        if (said["target"], said["user"], said["port"]) != (path, user, self.ground.origin.port):
            self.complain("another's data", f"{path} of {user}: {content}")
        if said["version"] < version:
            self.complain("own writes forgotten", f"{path} at {watch.node.port}: {said['version']} after {version}")
        sees = watch.since is not None and watch.since <= began
        for newer, since in self.purged[path]:
            if newer <= said["version"] or since is None or since >= began:
                continue
            self.late[sees] = max(self.late[sees], began - since)
            if began - since > NOTICED + (0 if sees else BLIND_LIMIT):
                self.complain("purged and served", f"{path} at {watch.node.port} {began - since:.2f} s after, {'seeing' if sees else 'blind'}")

    def purger(self):
        while not self.is_over.is_set():
            self.is_over.wait(0.1)
            watch = random.choice([watch for watch in self.watches if not watch.is_paused])
            path = random.choice([f"/all/{random.randrange(20)}", f"/mine/{random.randrange(3)}"])
            self.purge(watch, path)

    def purge(self, watch, path):
        purge = [self.ground.write(path), None]
        self.purged[path].append(purge)
        self.purges += 1
        try:
            status = watch.node.purge(path)
        except (OSError, ValueError) as error:
            return self.complain("errors", f"purge at {watch.node.port}: {error!r}")
        if status == 200:
            self.told([purge])
        elif status == 202:
            self.pended += 1
            watch.pending.append(purge)
        else:
            self.complain("errors", f"purge at {watch.node.port}: {status}")

    def told(self, purges):
        for purge in purges:
            purge[1] = time.monotonic()

    # Afterwards

    def is_shared(self, number):
        """Whether what the first node has fetched is given to all."""
        path = f"/shared/{number}"
        first = self.nodes[0].get(path)[1]
        time.sleep(0.1)
        return all(node.get(path)[1] == first for node in self.nodes)

    def recover(self):
        for what, seconds, done in (
            ("a node stays blind", 30, lambda: all(watch.since for watch in self.watches)),
            ("purges stay pending", 60, lambda: not any(watch.pending for watch in self.watches)),
            ("nothing is shared", 30, lambda: self.is_shared(random.getrandbits(40))),
        ):
            try:
                until(what, seconds, done)
            except SystemExit as error:
                self.complain("not well afterwards", error)

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                healed = time.monotonic()
                self.recover()
                back = time.monotonic() - healed
                time.sleep(1)
        finally:
            self.is_over.set()
            for thread in self.threads:
                thread.join()
            self.ground.end_all()
        if kind is None:
            self.judge(back)
            self.ground.is_bad |= bool(self.wrong)

    def judge(self, back):
        gaps, memory = sum(watch.gaps for watch in self.watches), max(watch.memory for watch in self.watches)
        if bool(gaps) != self.has_gaps:
            self.complain("gaps", f"{gaps:.0f}")
        if memory > MEMORY:
            self.complain("memory", f"{memory:.0f} MiB")
        if max(self.times) > LONGEST:
            self.complain("waited", f"{max(self.times):.2f} s")
        print(f"{self.name:<46} {len(self.times):>5} responses, the longest {max(self.times) * 1e3:>4.0f} ms; {self.purges:>3} purges, {self.pended:>3} pending; "
              f"purged and served {self.late[True]:.2f} s seeing, {self.late[False]:.2f} s blind; {gaps:.0f} gaps; {memory:>3.0f} MiB; well after {back:>4.1f} s"
              f"{'  BAD: ' + ', '.join(f'{count} x {what}' for what, count in self.wrong.items()) if self.wrong else ''}", flush=True)
        for error in self.errors:
            print(f"    {error}", flush=True)
