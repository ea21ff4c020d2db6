#!/usr/bin/env python3
"""What following the log costs, by the number of nodes: the node, its disk, and the engine.

    scale.py [--cistern PATH] [--seconds S] [--writes N] [--write]

Two, four and eight real nodes, of which one gets the writes; then up to 300 simulated ones (followers.c), which ask the engine for what a node asks, first
at the same rate of writes and then at a doubled one until a core of the engine is used up or entries come late. Prints the table of
README.md; with --write puts it there, between its markers.
"""
import argparse
import json
import re
import subprocess
import time
from pathlib import Path

import fleet

DOCUMENT = fleet.HERE / "README.md"
MARKS = "<!-- scale: written by Tests/Operation/scale.py --write -->", "<!-- /scale -->"
REAL, SIMULATED = (2, 4, 8), (10, 30, 100, 300)
# Of a core, and milliseconds: beyond either the engine has reached its end.
FULL, LATE = 0.85, 100


def compiled(directory, name, *words):
    program = directory / name
    subprocess.run(["cc", "-O2", "-o", str(program), str(fleet.HERE / f"{name.split('.')[0]}.c"), *words], check=True)
    return program


class CountedServer(fleet.Server):
    """A server of Redis, and what it has done since it was looked at."""

    def number(self, section, name):
        return float(re.search(rf"^{name}:([\d.]+)", self.ask("info", section), re.M)[1])

    def look(self):
        cpu = int((Path(f"/proc/{self.process.pid}/schedstat")).read_text().split()[0]) / 1e9
        return time.monotonic(), cpu, self.number("stats", "total_commands_processed"), self.number("stats", "total_net_output_bytes")

    def since(self, before):
        """CPU of a core, commands and bytes sent, each second."""
        took, *spent = (after - former for after, former in zip(self.look(), before))
        return [one / took for one in spent]


class CountedNode(fleet.Node):
    """A node that shares through one server, with its flushes counted."""

    def __init__(self, ground, library, port):
        self.counter = ground.directory / f"flushes-{time.monotonic_ns()}"
        super().__init__(
            ground, "--set", f"share.servers=redis://127.0.0.1:{port}", "--set", f"share.secret_file={ground.secret}",
            before=("env", f"LD_PRELOAD={library}", f"FLUSHES={self.counter}"))
        fleet.until("a node does not see the log", 20, self.sees)

    def flushes(self):
        return int.from_bytes(self.counter.read_bytes(), "little")


def write_at(node, rate, seconds):
    """So many writes a second, each to another target."""
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0, began + number / rate - time.monotonic()))
        node.ask("PUT", f"/scale/{time.monotonic_ns()}")
    return time.monotonic() - began


def followed(ground, server, nodes, rate, seconds):
    """What each write costs the nodes that only follow: CPU in milliseconds, flushes a second, and commands of the engine."""
    idle = nodes[1:]
    time.sleep(3)
    cpu, flushes, began = [node.cpu() for node in idle], [node.flushes() for node in idle], time.monotonic()
    time.sleep(3)
    rest = [(node.cpu() - before) / (time.monotonic() - began) for node, before in zip(idle, cpu)]
    cpu, flushes, before = [node.cpu() for node in idle], [node.flushes() for node in idle], server.look()
    took = write_at(nodes[0], rate, seconds)
    engine = server.since(before)
    writes = rate * seconds
    spent = [(node.cpu() - one - own * took) / writes * 1e3 for node, one, own in zip(idle, cpu, rest)]
    flushed = [(node.flushes() - one) / took for node, one in zip(idle, flushes)]
    return sum(spent) / len(idle), max(flushed), engine[1] * took / writes, engine


class Scale:
    def __init__(self, options):
        self.options = options
        self.ground = fleet.Ground(options)
        self.library = compiled(self.ground.directory, "flushes.so", "-shared", "-fPIC", "-ldl")
        self.followers = compiled(self.ground.directory, "followers")
        self.rows = []

    def row(self, nodes, rate, engine, late="", node="", flushes=""):
        cpu, commands, sent = engine
        self.rows.append(f"| {nodes} | {rate:,} | {cpu * 100:.0f} % | {commands:,.0f} | {sent / 1e6:.1f} MB | {late} | {node} | {flushes} |")
        print(self.rows[-1], flush=True)

    def real(self, count):
        server, nodes = CountedServer(self.ground.directory), []
        try:
            nodes = [CountedNode(self.ground, self.library, server.port) for _ in range(count)]
            spent, flushes, _, engine = followed(self.ground, server, nodes, self.options.writes, self.options.seconds)
            self.row(count, self.options.writes, engine, node=f"{spent:.3f} ms", flushes=f"{flushes:.1f}")
        finally:
            for node in nodes:
                node.process.kill()
            server.kill()

    def simulated(self, count, rate):
        """Whether the engine can do more."""
        server = CountedServer(self.ground.directory)
        try:
            fleet.ask(server.port, "set", "scale:epoch", "1")
            before = server.look()
            told = subprocess.run(
                [self.followers, str(server.port), "scale", str(count), str(rate), str(self.options.seconds)], capture_output=True, check=True, text=True)
            engine, found = server.since(before), json.loads(told.stdout)
        finally:
            server.kill()
        is_done = found["writes"] >= 0.95 * rate * self.options.seconds and found["entries"] >= 0.95 * found["writes"] * count
        self.row(f"{count} (simulated)", rate, engine, f"{found['p50']} / {found['p99']} ms" if is_done else "cannot follow")
        return is_done and engine[0] < FULL and found["p99"] <= LATE

    def run(self):
        for count in REAL:
            self.real(count)
        for count in SIMULATED:
            self.simulated(count, self.options.writes)
        for count in SIMULATED[-2:]:
            rate = 2 * self.options.writes
            while rate <= 64 * self.options.writes and self.simulated(count, rate):
                rate *= 2

    def table(self):
        cpus = len(fleet.os.sched_getaffinity(0))
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
        version = re.search(r"v=(\S+)", subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout)[1]
        return "\n".join([
            "| Nodes | Writes a second | Engine: CPU, of a core | Engine: commands a second | Engine: sends each second | An entry reaches a node, p50 / p99 | CPU of a node for each write elsewhere | Flushes of its disk a second |",
            "|---|---|---|---|---|---|---|---|", *self.rows, "",
            f"Measured with Redis {version} on {cpus} cores ({model}), which the engine, the nodes and the load share."])

    def end(self):
        self.ground.upstream.terminate()
        fleet.shutil.rmtree(self.ground.directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cistern", default=str(fleet.HERE.parent.parent / ".build/release/cistern"))
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--writes", type=int, default=100)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    scale = Scale(options)
    try:
        scale.run()
        table = scale.table()
    finally:
        scale.end()
    if not options.write:
        return print(table)
    before, rest = DOCUMENT.read_text().split(MARKS[0])
    DOCUMENT.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    main()
