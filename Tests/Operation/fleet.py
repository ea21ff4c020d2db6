#!/usr/bin/env python3
"""Four Cisterns that share through a Cluster of six, against the real program.

    fleet.py [--cistern PATH] [--keys N] [--seconds S] [--only NAME,...]

What one node stored answers a miss at another; one crowd at all nodes is one request upstream; no client waits long for what cannot be shared, fails,
or was asked for by a node that is gone; a purge at one is obeyed by all, through the loss of the
log's primary too; four nodes ask the upstream hardly more often than one, and work hardly more; what is shared costs a local hit nothing and a miss
little, and an engine that is gone nothing. Engines at one address: one that takes no writes, one that returns with an older dump, and those with which no
node starts. Prints each figure with its bar; ends with 1 where one is missed.
"""
import argparse
import http.client
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import upstream

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "Benchmarks"
sys.path.append(str(BENCHMARKS))
from servers import as_packaged
NODES = 4


def free_port():
    """One that no connection has by chance, nor the port 10,000 higher, where a server of a Cluster listens to the others."""
    while True:
        port = random.randrange(12_000, 22_000)
        try:
            for number in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
            return port
        except OSError:
            continue


def until(what, seconds, done):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def percentile(values, part):
    return sorted(values)[max(0, math.ceil(len(values) * part) - 1)] if values else 0


class Client:
    """Connections to one port, one for each thread, kept."""

    def __init__(self, port):
        self.port, self.local = port, threading.local()

    def ask(self, method, path, fields={}):
        """Status and content."""
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        was_kept = connection.sock is not None
        try:
            connection.request(method, path, headers=fields)
            response = connection.getresponse()
            return response.status, response.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            connection.close()
            # Kept, and closed while nobody looked: any client asks again.
            if was_kept:
                return self.ask(method, path, fields)
            raise
        except (http.client.HTTPException, OSError):
            connection.close()
            raise

    def get(self, path):
        return self.ask("GET", path)


class Node(Client):
    def __init__(self, trial, *settings, before=()):
        super().__init__(free_port())
        self.directory = Path(tempfile.mkdtemp(prefix="node-", dir=trial.directory))
        self.command = [
            *before, "env", *as_packaged(), trial.options.cistern, "serve", "--upstream", f"http://127.0.0.1:{trial.origin.port}", "--listen", f"127.0.0.1:{self.port}",
            "--cache-dir", str(self.directory), "--shards", "1", "--set", "log.level=warning", *settings]
        self.process = self.start()
        until("a node does not listen", 10, self.is_ready)

    def start(self, *words):
        return subprocess.Popen([*self.command, *words], stderr=open(self.directory / "log", "a"))

    def is_ready(self):
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def purge(self, path):
        """The status of the answer."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.settimeout(10)
            admin.connect(str(self.directory / "admin.sock"))
            admin.sendall(f"POST /-/purge?target={path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            reply = b""
            while piece := admin.recv(65536):
                reply += piece
        return int(reply[9:12])

    def metric(self, name):
        page = self.get("/metrics")[1].decode()
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", page, re.M))

    def sees(self):
        return self.metric("cistern_share_seeing") == 1

    def cpu(self):
        """Seconds of CPU of all threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def ask(port, *words):
    """What a server of Redis says."""
    return subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True).stdout.strip()


class Server:
    """A server of Redis that stores nothing on the disk unless a command asks for it."""

    def __init__(self, directory, *words):
        self.port, self.words = free_port(), words
        self.directory = Path(directory) / f"server-{self.port}"
        self.directory.mkdir()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--save", "", "--dir", self.directory, "--repl-diskless-sync-delay", "0", *self.words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until("the engine does not start", 10, lambda: self.ask("ping") == "PONG")

    def ask(self, *words):
        return ask(self.port, *words)

    def appends(self):
        found = re.search(r"cmdstat_xadd:calls=(\d+)", self.ask("info", "commandstats"))
        return int(found[1]) if found else 0

    def kill(self):
        self.process.kill()
        self.process.wait()


class Engine:
    """A Cluster of six: three primaries, three replicas."""

    def __init__(self, directory):
        self.directory, self.servers = directory, {}
        while len(self.servers) < 6:
            port = free_port()
            if port not in self.servers:
                self.servers[port] = self.start(port)
        self.ports = list(self.servers)

    def join(self):
        until("the engine does not start", 10, lambda: all(ask(port, "ping") == "PONG" for port in self.ports))
        addresses = [f"127.0.0.1:{port}" for port in self.ports]
        subprocess.run(
            ["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"], check=True, stdout=subprocess.DEVNULL)
        until("the Cluster is not well", 30, lambda: all("cluster_state:ok" in ask(port, "cluster", "info") for port in self.ports))
        until("replicas do not follow", 30, lambda: all("master_link_status:down" not in ask(port, "info", "replication") for port in self.ports))

    def start(self, port):
        directory = self.directory / f"engine-{port}"
        directory.mkdir(exist_ok=True)
        return subprocess.Popen(
            ["redis-server", "--port", str(port), "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--save", "", "--dir", directory,
             "--cluster-require-full-coverage", "no"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def primary_of_log(self):
        slot = int(ask(self.ports[0], "cluster", "keyslot", "cistern:main:{log}"))
        for line in ask(self.ports[0], "cluster", "nodes").splitlines():
            fields = line.split()
            ranges = [part.split("-") for part in fields[8:] if "[" not in part]
            if any(int(ends[0]) <= slot <= int(ends[-1]) for ends in ranges):
                return int(fields[1].split("@")[0].rsplit(":", 1)[1])
        raise SystemExit("nobody has the log")

    def kill(self, port):
        self.servers[port].kill()
        self.servers[port].wait()

    def restart(self, port):
        """It comes back as a replica of who took its place."""
        self.servers[port] = self.start(port)

    def end(self):
        for port in self.servers:
            self.kill(port)


class Ground:
    """What every fleet needs: a directory, an upstream, a secret, and figures with bars."""

    def __init__(self, options):
        self.options = options
        self.missed, self.nodes = [], []
        self.directory = Path(tempfile.mkdtemp(prefix="cistern-fleet-"))
        self.secret = self.directory / "secret"
        self.secret.write_text("%064x\n" % random.getrandbits(256))
        self.origin = Client(free_port())
        self.upstream = multiprocessing.Process(target=upstream.run, args=(self.origin.port,), daemon=True)
        self.upstream.start()

    def write(self, path):
        """The version that the upstream has from now on."""
        return json.loads(self.origin.ask("PUT", path)[1])["version"]

    def tell(self, what, value, unit, bar, is_met):
        if not is_met:
            self.missed.append(what)
        print(f"{what:<86} {value:>9.3f} {unit:<3} (bar {bar}){'' if is_met else '  MISSED'}", flush=True)

    def note(self, what, value, unit=""):
        print(f"{what:<86} {value:>9.3f} {unit}", flush=True)

    def end(self):
        """Ends the upstream. The directory stays if a bar was missed."""
        self.upstream.terminate()
        if not self.missed:
            shutil.rmtree(self.directory, ignore_errors=True)

    def judge(self):
        """Ends the script with 1 if a bar was missed."""
        if self.missed:
            print(f"missed: {', '.join(self.missed)}; logs in {self.directory}")
            sys.exit(1)


class Trial(Ground):
    def __init__(self, options):
        super().__init__(options)
        self.engine = Engine(self.directory)

    def start_nodes(self):
        self.engine.join()
        for _ in range(NODES):
            self.nodes.append(self.sharing_node())

    def sharing_node(self):
        servers = ",".join(f"redis://127.0.0.1:{port}" for port in self.engine.ports)
        # The cores are not ours alone: what is measured is what sharing costs, not how often 10 ms are exceeded here.
        node = Node(
            self, "--set", f"share.servers={servers}", "--set", f"share.secret_file={self.secret}", "--set", "share.timeout=200ms")
        until("a node does not see the log", 20, node.sees)
        return node

    def asked(self):
        return int(json.loads(self.origin.get("/asked")[1])["target"])

    def end(self):
        for node in self.nodes:
            node.process.kill()
        self.engine.end()
        super().end()

    # The parts

    def sharing(self):
        """What one node has stored answers the others' misses."""
        count, before = self.options.keys, self.asked()
        paths = [f"/shared/{number}" for number in range(count)]
        for path in paths:
            self.nodes[0].get(path)
        until("nothing was given", 20, lambda: self.nodes[0].metric("cistern_shared_offers_total") >= count)
        first, again = ([self.time(self.nodes[1], path) for path in paths] for _ in range(2))
        for node in self.nodes[2:]:
            for path in paths:
                node.get(path)
        extra = (statistics.median(first) - statistics.median(again)) * 1e3
        self.tell("a miss that another node has stored, beyond a hit, p50", extra, "ms", "1 ms", extra <= 1)
        fetched = (self.asked() - before) / count
        self.tell("requests upstream for each target that four nodes were asked for", fetched, "", "1.05", fetched <= 1.05)

    def time(self, node, path):
        began = time.perf_counter()
        node.get(path)
        return time.perf_counter() - began

    def crowd(self):
        """500 at once for a cold target, a quarter at each node."""
        counts = []
        for number in range(10):
            before, path = self.asked(), f"/crowd/{number}"
            threads = [threading.Thread(target=self.nodes[place % NODES].get, args=(path,)) for place in range(500)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            counts.append(self.asked() - before)
        self.note("requests upstream for 500 at once at four nodes, of ten crowds the mean", statistics.mean(counts))
        self.tell("of ten crowds the most", max(counts), "", "2", max(counts) <= 2)

    def leases(self):
        """How long clients wait for what another node, or another request of their node, asks the upstream for."""
        self.wait_for("no-store after 3 s, a client at each of three nodes", "200/no-store/3/10", 3, [0, 1, 2])
        self.wait_for("503 after 4 s, a client at each of three nodes", "503/no-store/4/10", 4, [0, 1, 2])
        self.wait_for("2 MB over 2 s, a client at each of three nodes", "200/max-age=600/2/2000000", 2, [0, 1, 2])
        self.wait_for("503 after 1 s, three clients at one node", "503/no-store/1/10", 1, [0, 0, 0])
        self.wait_for("200 after 8 s, three clients at each of three nodes", "200/max-age=600/8/10", 8, [0, 1, 2] * 3, knows=False)
        self.wait_for("200 after 3 s, three clients at each of three nodes", "200/max-age=600/3/10", 3, [0, 1, 2] * 3, most=1, knows=False)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            self.leader_gone(number)

    def slow(self, path, places):
        """Clients under way at these nodes, and the seconds that each takes."""
        times = [0.0] * len(places)

        def get(number, place):
            connection = http.client.HTTPConnection("127.0.0.1", self.nodes[place].port, timeout=60)
            began = time.monotonic()
            try:
                connection.request("GET", path)
                connection.getresponse().read()
            except OSError:
                pass
            times[number] = time.monotonic() - began

        threads = [threading.Thread(target=get, args=pair, daemon=True) for pair in enumerate(places)]
        for number, thread in enumerate(threads):
            thread.start()
            if number == 0:
                # The first one leads.
                time.sleep(0.05)
        return times, threads

    def wait_for(self, what, kind, seconds, places, most=None, knows=True):
        path = f"/slow/{kind}/{random.random()}"
        for turn in ("at first", "known") if knows else ("at first",):
            bar = (2 if turn == "at first" else 1.1) * seconds + 0.05
            asked = self.of(path)
            times, threads = self.slow(path, places)
            for thread in threads:
                thread.join()
            self.tell(f"{what}, {turn}: the longest", max(times), "s", f"{bar:.2f} s", max(times) <= bar)
            asked = self.of(path) - asked
            if most:
                self.tell(f"{what}: requests upstream", asked, "", most, asked <= most)
            else:
                self.note(f"{what}, {turn}: requests upstream", asked)

    def of(self, path):
        return int(json.loads(self.origin.get("/asked-of" + path)[1])["target"])

    def leader_gone(self, number):
        """The node that asks the upstream ends, or stops: another one asks."""
        path = f"/slow/200/max-age=600/2/10/{random.random()}"
        times, threads = self.slow(path, [3, 0, 1, 2])
        time.sleep(0.5)
        gone = time.monotonic()
        self.nodes[3].process.send_signal(number)
        until("no other node asks", 10, lambda: self.of(path) == 2)
        took = (time.monotonic() - gone) * 1e3
        for thread in threads[1:]:
            thread.join()
        name = signal.Signals(number).name
        self.tell(f"{name} of the node that asks: another one asks after", took, "ms", "350 ms", took <= 350)
        self.tell(f"{name} of the node that asks: the longest", max(times[1:]), "s", "2.95 s", max(times[1:]) <= 2.95)
        asked = self.of(path)
        self.tell(f"{name} of the node that asks: requests upstream", asked, "", "2", asked == 2)
        if number == signal.SIGSTOP:
            self.nodes[3].process.send_signal(signal.SIGCONT)
        else:
            self.nodes[3].process.wait()
            self.nodes[3].process = self.nodes[3].start()
        until("a node does not see the log", 20, lambda: self.nodes[3].is_ready() and self.nodes[3].sees())

    def purge_others(self, ended, told, errors):
        """100 purges a second of other targets, at all nodes in turn."""

        def one(offset):
            turn = 0
            while not ended.is_set():
                began = time.monotonic()
                try:
                    told.append(self.nodes[turn % NODES].purge(f"/other/{offset}/{turn % 50}"))
                except OSError as error:
                    errors.append(f"purge: {error}")
                turn += 1
                ended.wait(max(0, 0.04 - (time.monotonic() - began)))

        threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        return threads

    def purging(self, seconds, what):
        """How long after its answer a purge is obeyed by all nodes that see the log. Who does not see it has until it does."""
        ended, told, errors, times, pending, broken = threading.Event(), [], [], [], [], []
        threads = self.purge_others(ended, told, errors)
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            path = f"/purged/{number % 20}"
            number += 1
            for node in self.nodes:
                node.get(path)
            version = self.write(path)
            purging = self.nodes[number % NODES]
            answer = purging.purge(path)
            took, last = self.obeyed(path, version, purging, errors, broken)
            if answer == 200:
                times.append(took * 1e3)
            else:
                pending.append(last)
        ended.set()
        for thread in threads:
            thread.join()
        p99 = percentile(times, 0.99)
        self.note(f"{what}: purges a second", (len(told) + number) / seconds)
        self.tell(f"{what}: obeyed by all that see the log, p99 of {len(times)}", p99, "ms", "100 ms", times and p99 <= 100)
        self.note(f"{what}: the longest of {len(pending)} that were pending", max(pending, default=0), "s")
        self.tell(f"{what}: served by nodes that saw the log", len(broken), "", "0", not broken)
        self.tell(f"{what}: errors of clients", len(errors), "", "0", not errors)
        for error in (errors + broken)[:3]:
            print(f"    {error}")

    def obeyed(self, path, version, purging, errors, broken):
        """The longest that a node took that saw the log, and that any took, in seconds."""
        began, seeing = time.monotonic(), 0
        for node in self.nodes:
            told = None
            while True:
                saw = time.monotonic() - began > 0.1 and node.sees()
                if saw and told is None and purging.metric("cistern_share_pending_purges") == 0:
                    told = time.monotonic()
                status, content = node.get(path)
                now = time.monotonic()
                if status != 200:
                    errors.append(f"{path}: {status}")
                    break
                if json.loads(content)["version"] >= version:
                    seeing = max(seeing, now - began if saw or now - began <= 0.1 else 0)
                    break
                if now - began > 60 or (saw and told and now - told > 0.1):
                    broken.append(f"{path}: {node.port} serves what was purged at {purging.port} {now - began:.1f} s ago, and sees the log: {saw}")
                    break
        return seeing, time.monotonic() - began

    def failover(self):
        port = self.engine.primary_of_log()
        for delay, act in ((3, self.engine.kill), (9, self.engine.restart)):
            threading.Timer(delay, act, (port,)).start()
        self.purging(15, "the log's primary killed")
        until("a node is blind after the failover", 30, lambda: all(node.sees() for node in self.nodes))
        until("purges stay pending", 90, lambda: all(node.metric("cistern_share_pending_purges") == 0 for node in self.nodes))
        gaps = sum(node.metric("cistern_share_gaps_total") for node in self.nodes)
        self.tell("the log's primary killed: gaps", gaps, "", "0", gaps == 0)

    # What it costs

    def load(self, node, script=None, environment=None):
        """Seconds of CPU for each request."""
        command = ["taskset", "-c", "1", "wrk", "-t1", "-c16", f"-d{self.options.seconds}", *(["-s", str(BENCHMARKS / script)] if script else [])]
        before = node.cpu()
        text = subprocess.run(
            [*command, f"http://127.0.0.1:{node.port}/hot"], capture_output=True, text=True, check=True, env={**os.environ, **(environment or {})}).stdout
        return (node.cpu() - before) / int(re.search(r"(\d+) requests in", text)[1])

    def beside(self, alone, node, script=None, rounds=5):
        """CPU of a request at a node that shares nothing and at one that shares, by rounds that take turns."""
        pairs = []
        for turn in range(rounds):
            order = (alone, node) if turn % 2 == 0 else (node, alone)
            found = {one: self.load(one, script) for one in order}
            pairs.append((found[alone], found[node]))
        return pairs

    def costs(self):
        alone = Node(self)
        for node in (alone, *self.nodes):
            os.sched_setaffinity(node.process.pid, {0})
            for task in Path(f"/proc/{node.process.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {0})
            node.get("/hot")
        hits = [pair for node in self.nodes for pair in self.beside(alone, node, rounds=3)]
        ratio = statistics.median(shared / single for single, shared in hits)
        self.tell("CPU of a local hit at each of four, beside a node that shares nothing", ratio, "", "1.05", ratio <= 1.05)
        misses = self.beside(alone, self.nodes[0], "sequence.lua")
        more = statistics.median(shared - single for single, shared in misses) * 1e6
        self.tell("CPU of a miss that is stored, beyond that of such a node", more, "us", "15 us", more <= 15)
        self.engine_gone(alone)
        alone.stop()

    def following(self):
        """What the writes of one node cost the others, whose clients are quiet."""
        from scale import CountedNode, CountedServer, compiled, followed

        library, server, nodes, rate = compiled(self.directory, "flushes.so", "-shared", "-fPIC", "-ldl"), CountedServer(self.directory), [], 100
        try:
            nodes = [CountedNode(self, library, server.port) for _ in range(NODES)]
            spent, flushes, commands, _ = followed(self, server, nodes, rate, 10)
        finally:
            for node in nodes:
                node.process.kill()
            server.kill()
        self.tell(f"CPU of a node for each of {rate} writes a second elsewhere", spent, "ms", "0.1 ms", spent <= 0.1)
        self.tell("flushes of its disk", flushes, "/s", "1 /s", flushes <= 1)
        self.tell(f"commands of the engine for a write, with {NODES} nodes", commands, "", f"{NODES + 1.5}", commands <= NODES + 1.5)

    def engine_gone(self, alone):
        self.engine.end()
        for path in range(50):
            self.nodes[0].get(f"/gone/{path}")
        until("a breaker stays closed", 20, lambda: self.nodes[0].metric("cistern_share_seeing") == 0)
        hits, misses = self.beside(alone, self.nodes[0]), self.beside(alone, self.nodes[0], "sequence.lua")
        more = statistics.median(shared - single for single, shared in hits) * 1e6
        self.tell("the engine gone: CPU of a local hit, beyond that of such a node", more, "us", "1 us", more <= 1)
        more = statistics.median(shared - single for single, shared in misses) * 1e6
        self.tell("the engine gone: CPU of a miss, beyond that of such a node", more, "us", "1 us", more <= 1)

    def run(self):
        # It is made of what this file has.
        import fleet_engines
        edges = {"mute": fleet_engines.mute, "dump": fleet_engines.dump, "refused": fleet_engines.refused}
        parts = {
            "sharing": self.sharing, "crowd": self.crowd, "leases": self.leases, "purging": lambda: self.purging(20, "purging"),
            "failover": self.failover, "following": self.following, "costs": self.costs}
        wanted = self.options.only.split(",") if self.options.only else [*edges, *parts]
        for name, part in edges.items():
            if name in wanted:
                part(self)
        if any(name in wanted for name in parts):
            self.start_nodes()
        for name, part in parts.items():
            if name in wanted:
                part()
        for node in self.nodes:
            node.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cistern", default=str(HERE.parent.parent / ".build/release/cistern"))
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only")
    trial = Trial(parser.parse_args())
    try:
        trial.run()
    finally:
        trial.end()
    trial.judge()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
