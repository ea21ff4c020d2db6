#!/usr/bin/env python3
"""The edges of a fleet, with real nodes and real servers of Redis: who is not of the fleet, an engine that is far away, and two versions side by side.

    fleet-edges.py [--cistern PATH] [--old PATH] [--seconds S] [--seed N] [--only NAME,...]

strangers: a node with another secret, and one with another upstream, cost the fleet no hit and append nothing.
distant: an engine with a round trip above share.timeout costs misses hardly anything, and is asked again when it is nearer.
records: JSON takes a third of its length in the engine.
upgrade: three nodes are replaced one by one by another version, and back, under reads, writes and purges. The other version is --old, or it is built: of the
last tag v*, or, where there is none, of the commit before the log's entries named their keys.

Prints each figure with its bar; ends with 1 where one is missed.
"""
import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import threading
import time
from types import SimpleNamespace

from fleet import Client, Ground, HERE, Node, Server, until
from fleet_day import Wire

ROOT = HERE.parent.parent
USERS = (None, "ann", "bob")
# Seconds after its answer within which a purge or write has to be obeyed by a node that is being replaced just then; by others it is 0.1.
OBEYED = 2


class Edges(Ground):
    def __init__(self, options):
        super().__init__(options)
        # With a replica, so that purges become durable.
        self.engine = Server(self.directory)
        self.replica = Server(self.directory, "--replicaof", "127.0.0.1", str(self.engine.port))
        until("the replica does not follow", 20, lambda: "state=online" in self.engine.ask("info", "replication"))
        self.random = random.Random(options.seed)

    def node(self, *settings, cistern=None, port=None, timeout="200ms", secret=None, sees=True, origin=None):
        ground = SimpleNamespace(
            directory=self.directory, origin=origin or self.origin, options=SimpleNamespace(cistern=cistern or self.options.cistern))
        node = Node(
            ground, "--set", f"share.servers=redis://127.0.0.1:{port or self.engine.port}", "--set", f"share.secret_file={secret or self.secret}",
            "--set", f"share.timeout={timeout}", "--set", "share.fleet=shop", "--set", "share.blind_limit=3s", *settings)
        self.nodes.append(node)
        if sees:
            until("a node does not see the log", 20, node.sees)
        return node

    def stop_nodes(self):
        for node in self.nodes:
            node.process.kill()
            node.process.wait()
        self.nodes = []
        self.engine.ask("flushall")

    def end(self):
        self.stop_nodes()
        for server in self.engine, self.replica:
            server.kill()
        super().end()

    # Who is not of the fleet

    def strangers(self):
        fleet = [self.node(), self.node()]
        paths = [f"/fleet/{number}" for number in range(50)]
        for node in fleet:
            for path in paths:
                node.get(path)
        secret = self.directory / "other-secret"
        secret.write_text("%064x\n" % random.getrandbits(256))
        other_upstream = Client(self.origin.port)
        strangers = {
            "other_secret": self.node(secret=secret, sees=False),
            "other_upstream": self.node("--set", f"upstream.url=http://localhost:{other_upstream.port}", sees=False)}
        for cause, node in strangers.items():
            until(f"a node does not say {cause}", 10, lambda: node.metric(f'cistern_share_blind{{cause="{cause}"}}') == 1)
        asked = self.asked()
        hits = 0
        for _ in range(20):
            for number, node in enumerate(strangers.values()):
                node.purge(f"/fleet/{self.random.randrange(50)}")
                node.ask("PUT", f"/strange/{number}")
            for node in fleet:
                for path in paths:
                    hits += node.get(path)[0] == 200
        part = 1 - (self.asked() - asked) / hits
        self.tell("hits of a fleet while strangers purge and write", part * 100, "%", "99 %", part >= 0.99)
        appended = sum(node.metric("cistern_share_log_entries_appended_total") for node in strangers.values())
        self.tell("entries that they have appended", appended, "", "0", appended == 0)
        seeing = sum(node.sees() for node in fleet)
        self.tell("nodes of the fleet that see the log", seeing, "", "2", seeing == 2)

    def asked(self):
        return int(json.loads(self.origin.get("/asked")[1])["target"])

    # An engine that is far away

    def misses(self, node, name, count):
        """Seconds that each of them took."""
        times = []
        for number in range(count):
            began = time.perf_counter()
            node.get(f"/{name}/{number}")
            times.append(time.perf_counter() - began)
        return sorted(times)

    def distant(self):
        wire = Wire(self.engine.port)
        alone = Node(SimpleNamespace(directory=self.directory, origin=self.origin, options=self.options))
        self.nodes.append(alone)
        node = self.node(port=wire.port, timeout="10ms")
        base = self.misses(alone, "alone", 200)[100]
        wire.delay = 0.02
        self.misses(node, "warming", 40)
        until("a node does not notice that the engine is far away", 10, lambda: node.metric("cistern_share_slow_loops") == 1)
        extra = (self.misses(node, "distant", 200)[100] - base) * 1e3
        self.tell("a round trip of 20 ms: a miss, beyond that of a node that shares nothing, p50", extra, "ms", "2 ms", extra <= 2)
        wire.delay = 0

        def is_asked_again():
            node.get(f"/again/{self.random.random()}")
            return node.metric("cistern_share_slow_loops") == 0

        until("the engine is near again, and is not asked", 20, is_asked_again)

    # What is stored there

    def records(self):
        node, count = self.node(), self.options.keys
        for number in range(count):
            length = len(node.get(f"/list/{number}")[1])
        until("responses are not given", 20, lambda: node.metric("cistern_shared_offers_total") >= count)
        keys = [key for key in self.engine.ask("--scan", "--pattern", "cistern:shop:*").split() if re.search(r"\{[0-9a-f]{32}\}$", key)]
        memory = statistics.mean(int(self.engine.ask("memory", "usage", key)) for key in keys)
        self.note(f"memory of the engine for a response of {length} bytes of JSON, with its key", memory, "B")
        self.tell("beside its length", memory / length, "", "0.6", memory / length <= 0.6)

    # Two versions

    def upgrade(self):
        trial = Upgrade(self, self.options.old or built_before(self.directory))
        trial.run()


def built_before(directory):
    """A release binary of the version before."""
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.split()

    first = git("log", "--diff-filter=A", "--format=%H", "--", "Sources/Sharing/FleetAdmission.swift")
    commit = (git("describe", "--tags", "--abbrev=0", "--match", "v*") or [f"{first[-1]}^" if first else "HEAD"])[0]
    place = directory / "before"
    print(f"building {commit}: minutes; --old PATH takes a binary that is there", flush=True)
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", place, commit], check=True, stdout=subprocess.DEVNULL)
    try:
        subprocess.run(
            ["swift", "build", "-c", "release", "--static-swift-stdlib", "--product", "cistern", "--package-path", place], check=True,
            stdout=subprocess.DEVNULL)
        binary = directory / "cistern-before"
        shutil.copy(place / ".build/release/cistern", binary)
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", place], check=True)
    return str(binary)


class Member:
    """One place of the fleet, where one version takes the place of another, as a balancer sees it: nobody is sent there meanwhile."""

    def __init__(self, trial, binary):
        self.trial, self.lock, self.busy, self.is_up = trial, threading.Condition(), 0, True
        self.node = trial.edges.node(cistern=binary)

    def use(self, what):
        """What comes of it; nothing where the node is out of use."""
        with self.lock:
            if not self.is_up:
                return None
            self.busy += 1
        try:
            return what(self.node)
        finally:
            with self.lock:
                self.busy -= 1
                self.lock.notify_all()

    def replace(self, binary):
        with self.lock:
            self.is_up = False
            self.lock.wait_for(lambda: self.busy == 0)
        self.node.stop()
        self.node.command[self.node.command.index("serve") - 1] = binary
        self.node.process = self.node.start()
        until("a node does not listen", 20, self.node.is_ready)
        with self.lock:
            self.is_up = True


class Upgrade:
    """An oracle: it knows since when which version of a target is the least that may be seen, and whose responses are whose."""
    TARGETS = 40

    def __init__(self, edges, old):
        self.edges, self.old, self.new = edges, old, edges.options.cistern
        self.is_over, self.lock = threading.Event(), threading.Lock()
        # For each target what was acknowledged: from a time on no older version.
        self.least = {}
        self.reads = self.changes = self.purges = self.pending = 0
        self.stale, self.foreign, self.errors = [], [], []
        self.members = [Member(self, self.old) for _ in range(3)]

    def target(self, source):
        return f"/upgrade/{source.randrange(self.TARGETS)}"

    def acknowledge(self, target, version):
        with self.lock:
            self.least.setdefault(target, []).append((time.monotonic() + OBEYED, version))

    def read(self, member, source):
        target, user = self.target(source), source.choice(USERS)
        fields = {"Authorization": user} if user else {}
        began = time.monotonic()
        answer = member.use(lambda node: (node.port, *node.ask("GET", target, fields)))
        if answer is None:
            return
        port, status, content = answer
        if status != 200:
            return self.errors.append(f"{target} at {port}: {status}")
        said = json.loads(content)
        with self.lock:
            self.reads += 1
            least = max((version for since, version in self.least.get(target, []) if since < began), default=0)
        if said["target"] != target or said["user"] != user:
            self.foreign.append(f"{target} of {user} at {port}: {said['target']} of {said['user']}")
        if said["version"] < least:
            self.stale.append(f"{target} at {port}: version {said['version']}, not {least}")

    def change(self, member, source):
        """A write by way of a node, which tells the others, or one behind their backs and a purge."""
        target = self.target(source)
        if source.random() < 0.5:
            answer = member.use(lambda node: node.ask("PUT", target))
            if answer is not None and answer[0] == 200:
                self.changes += 1
                self.acknowledge(target, json.loads(answer[1])["version"])
            return
        version = self.edges.write(target)
        status = member.use(lambda node: node.purge(target))
        if status == 200:
            self.purges += 1
            self.acknowledge(target, version)
        elif status is not None:
            self.pending += 1

    def keep_at(self, member, act, seed, pause):
        source = random.Random(seed)
        while not self.is_over.is_set():
            try:
                act(member, source)
            except (OSError, ValueError) as error:
                self.errors.append(f"{member.node.port}: {error!r}")
            self.is_over.wait(pause * source.random())

    def run(self):
        seed, pause = self.edges.options.seed, self.edges.options.seconds
        threads = [
            threading.Thread(target=self.keep_at, args=(member, act, f"{seed} {number} {place}", wait))
            for number, member in enumerate(self.members)
            for place, (act, wait) in enumerate([(self.read, 0.01), (self.read, 0.01), (self.change, 0.1)])]
        for thread in threads:
            thread.start()
        try:
            for binary in (self.new, self.old, self.new):
                for member in self.members:
                    time.sleep(pause)
                    member.replace(binary)
            time.sleep(OBEYED + pause)
        finally:
            self.is_over.set()
            for thread in threads:
                thread.join()
        tell = self.edges.tell
        self.edges.note("nodes of two versions: reads", self.reads)
        self.edges.note("nodes of two versions: writes and purges that were acknowledged", self.changes + self.purges)
        self.edges.note("nodes of two versions: purges that were pending", self.pending)
        tell(f"nodes of two versions: older than acknowledged {OBEYED} s before", len(self.stale), "", "0", not self.stale)
        tell("nodes of two versions: of another target or user", len(self.foreign), "", "0", not self.foreign)
        tell("nodes of two versions: errors of clients", len(self.errors), "", "0", not self.errors)
        enough = self.purges >= 10 and self.changes >= 10
        tell("nodes of two versions: purges that were acknowledged", self.purges, "", "10", enough)
        for line in (self.stale + self.foreign + self.errors)[:5]:
            print(f"    {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cistern", default=str(ROOT / ".build/release/cistern"))
    parser.add_argument("--old")
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--only")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    edges = Edges(options)
    try:
        for name in ("strangers", "distant", "records", "upgrade"):
            if not options.only or name in options.only.split(","):
                getattr(edges, name)()
                edges.stop_nodes()
    finally:
        edges.end()
    edges.judge()


if __name__ == "__main__":
    main()
