"""Two shards on two cores beside HAProxy with two threads: how many requests a second, at what CPU, and how long a request takes at a rate that the
slower one can bear. wrk, or the client of the open loop, shares the cores with them, and 128 connections ask.

The open loop (openloop.c) asks at 70 % of the slower one's highest rate, however long responses take, and counts from the moment at which a request
was due."""
import bisect
import itertools
import os
import random
import re
import statistics
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONNECTIONS = 128
TARGETS = 100_000
# Of HAProxy's: requests a second, CPU of a request, 99th percentile.
BARS = {"rate": 1.4, "cpu": 0.65, "p99": 1.0}
SHARE = 0.7


def random_requests(chance):
    return (f"GET /items/{chance.randrange(TARGETS)} HTTP/1.1\r\nHost: bench\r\n\r\n" for _ in itertools.count())


def zipf_requests(chance):
    """As zipf.lua makes them."""
    sums = list(itertools.accumulate(1 / rank ** 0.99 for rank in range(1, TARGETS + 1)))
    agents = [text for version in range(1, 6) for text in (
        f"Example/{version}.2 (iPhone; iOS 18.{version}; Scale/3.00)", f"Example-Android/{version}.2 okhttp/4.1{version}.0")]
    languages = ["en-GB,en;q=0.9", "de-DE,de;q=0.9,en;q=0.5", "fr-FR,fr;q=0.9"]
    while True:
        target = bisect.bisect_left(sums, chance.random() * sums[-1])
        yield (f"GET /items/{min(target, TARGETS - 1)} HTTP/1.1\r\nHost: bench\r\nAccept: application/json, */*;q=0.5\r\n"
               f"Accept-Language: {chance.choice(languages)}\r\nUser-Agent: {chance.choice(agents)}\r\n\r\n")


KINDS = {"random": ("100,000 stored responses at random", "random.lua", random_requests),
         "zipf": ("the same by Zipf's law, asked for as apps do", "zipf.lua", zipf_requests)}


class TwoShards:
    def __init__(self, bench):
        self.bench, self.options = bench, bench.options

    def run(self):
        bench = self.bench
        client = f"{bench.directory}/openloop"
        subprocess.run(["cc", "-O2", "-o", client, str(HERE / "openloop.c")], check=True)
        contenders = {"cistern": bench.start_two_shards(), "haproxy": bench.start_two_threads()}
        for _, port in contenders.values():
            bench.fill(port, TARGETS)
        print("\n| two shards, two cores | requests/s | beside HAProxy | CPU of a request | beside | p99 at 70 % | beside | |\n|---|---|---|---|---|---|---|---|")
        for kind in KINDS:
            self.compare(kind, contenders, client)
        for process, _ in contenders.values():
            process.stop()

    def compare(self, kind, contenders, client):
        title, script, make = KINDS[kind]
        rate, cpu, p99 = ({one: [] for one in contenders} for _ in range(3))
        for _ in range(self.options.rounds):
            for one, (process, port) in contenders.items():
                before = process.cpu()
                count, per_second = self.bench.wrk(port, "/", self.options.seconds, CONNECTIONS, script, cores="0,1", threads=2)
                cpu[one].append((process.cpu() - before) / count * 1e6)
                rate[one].append(per_second)
        rate, cpu = ({one: statistics.median(values) for one, values in figures.items()} for figures in (rate, cpu))
        asked = SHARE * min(rate.values())
        file = Path(self.bench.directory) / f"{kind}.requests"
        file.write_text("".join(text + "\0" for text in itertools.islice(make(random.Random(1)), 200_000)))
        for _ in range(self.options.rounds):
            for one, (_, port) in contenders.items():
                p99[one].append(self.ask(client, port, asked, file))
        p99 = {one: statistics.median(values) for one, values in p99.items()}
        ratios = {"rate": rate["cistern"] / rate["haproxy"], "cpu": cpu["cistern"] / cpu["haproxy"], "p99": p99["cistern"] / p99["haproxy"]}
        missed = [name for name, ratio in ratios.items() if (ratio < BARS[name] if name == "rate" else ratio > BARS[name])]
        print(f"| {title} | {rate['cistern']:,.0f} | {ratios['rate']:.2f} × (bar {BARS['rate']:.2f}) | {cpu['cistern']:.1f} µs | "
              f"{ratios['cpu']:.2f} (bar {BARS['cpu']:.2f}) | {p99['cistern'] / 1000:.2f} ms of {asked:,.0f}/s | "
              f"{p99['haproxy'] / 1000:.2f} ms: {ratios['p99']:.2f} (bar {BARS['p99']:.2f}) | "
              + ("reached |" if not missed else f"missed: {', '.join(missed)} |"), flush=True)

    def ask(self, client, port, rate, file):
        """The 99th percentile in microseconds; all that was not done by the end counts as longer."""
        command = ["taskset", "-c", "0,1", client, str(port), str(CONNECTIONS), f"{rate:.0f}", str(self.options.seconds), str(file)]
        out = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        found = re.search(r"(\d+) due (\d+) done p50 (\d+) p99 (\d+)", out.stdout)
        if not found:
            raise SystemExit(f"openloop: {out.stderr.strip() or out.stdout.strip()}")
        due, done, _, p99 = map(int, found.groups())
        return p99 if done == due else 10_000_000
