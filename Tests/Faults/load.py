"""The upstream is a black hole under load: how fast stored answers go out, how often it is tried, and whether memory stays flat."""
import json
import random
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path

from origin import Origin
from play import Cistern, Client, Wrong
from rows import Fault, answer

PATHS = 1_000
RATE = 200
CONNECTIONS = 16
# The bars.
SLOWEST = 0.005
RECHECK = 1.0
GROWTH = 4 << 20


def content(target):
    return json.dumps({"path": target, "text": "t" * 1000}).encode()


class Load:
    def __init__(self, options):
        self.options = options
        self.answers = []
        self.own = []
        self.wrong = []
        self.ended = threading.Event()

    def run(self):
        directory = tempfile.mkdtemp(prefix="cistern-load-")
        origin = Origin()
        origin.good(lambda target: answer(content(target.decode())))
        cistern = Cistern(self.options.cistern, f"http://127.0.0.1:{origin.port}", directory,
                          ["--cache-size", "64MiB", "--shards", "2", "--set", f"failure.recheck={int(RECHECK * 1000)}ms"])
        try:
            return self.measure(origin, cistern)
        finally:
            cistern.kill()
            origin.close()
            shutil.rmtree(directory, ignore_errors=True)

    def measure(self, origin, cistern):
        targets = [f"/items/{number}" for number in range(PATHS)]
        with Client(cistern.socket) as client:
            for target in targets:
                client.get(target)
        origin.fail(Fault("load", "black hole", at="black hole"), None)
        workers = [threading.Thread(target=self.work, args=(cistern, targets, number)) for number in range(CONNECTIONS)]
        began = time.monotonic()
        workers.append(threading.Thread(target=self.compare, args=(cistern,)))
        for worker in workers:
            worker.start()
        while cistern.metric('cistern_upstream_up') == 1:
            if time.monotonic() > began + 20:
                raise Wrong("the failure memory does not open")
            time.sleep(0.05)
        opened = time.monotonic()
        time.sleep(1)
        tried, memory, since = self.tries(cistern), self.memory(cistern), time.monotonic()
        time.sleep(self.options.seconds)
        seconds = time.monotonic() - since
        tried, grown = self.tries(cistern) - tried, self.memory(cistern) - memory
        self.ended.set()
        for worker in workers:
            worker.join()
        return self.report(opened - began, opened, seconds, tried, memory, grown)

    def work(self, cistern, targets, number):
        """Its share of the rate, by the clock: who falls behind does not catch up."""
        chance = random.Random(number)
        interval = CONNECTIONS / RATE
        due = time.monotonic() + interval * number / CONNECTIONS
        with Client(cistern.socket) as client:
            while not self.ended.wait(max(0, due - time.monotonic())):
                target = chance.choice(targets)
                sent = time.monotonic()
                got = client.get(target)
                self.answers.append((sent, got.seconds))
                if got.status != 200 or got.content != content(target):
                    self.wrong.append(f"{target}: {got}")
                due = max(due + interval, time.monotonic() - interval)

    def compare(self, cistern):
        """An own page beside it, which asks neither store nor upstream: what this machine adds."""
        with Client(cistern.socket) as client:
            while not self.ended.wait(0.02):
                self.own.append(client.get("/healthz").seconds)

    @staticmethod
    def tries(cistern):
        """Requests, and connections that are tried without one."""
        return cistern.metric("cistern_upstream_requests_total") + cistern.metric("cistern_connection_attempts_total")

    @staticmethod
    def memory(cistern):
        return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{cistern.child.pid}/status").read_text())[1]) * 1024

    def report(self, opening, opened, seconds, tried, memory, grown):
        times = sorted(took for sent, took in self.answers if sent > opened + 0.2)
        slowest = times[int(len(times) * 0.99)]
        own = sorted(self.own)[int(len(self.own) * 0.99)]
        allowed = int(seconds / RECHECK) + 1
        rows = [
            ("answers, all exact", f"{len(self.answers):,}", f"{len(self.wrong)} wrong", not self.wrong),
            ("failure memory open after", f"{opening:.1f} s", "", True),
            ("rescues then: median", f"{times[len(times) // 2] * 1000:.2f} ms", "", True),
            ("rescues then: p99", f"{slowest * 1000:.2f} ms", f"{SLOWEST * 1000:.0f} ms more than an own page", slowest <= SLOWEST + own),
            ("an own page beside it: p99", f"{own * 1000:.2f} ms", "", True),
            ("attempts at the upstream", f"{tried:.0f} in {seconds:.0f} s", f"{allowed}", tried <= allowed),
            ("memory of its own", f"{memory / 2**20:.1f} MB, then {grown / 2**20:+.1f} MB", f"+{GROWTH >> 20} MB", grown <= GROWTH),
        ]
        print(f"\n**Black hole under {RATE} requests/s over {PATHS:,} stored targets**\n\n| what | measured | bar | |\n|---|---|---|---|")
        for what, measured, bar, isGood in rows:
            print(f"| {what} | {measured} | {bar} | {'yes' if isGood else '**red**'} |")
        for text in self.wrong[:5]:
            print(f"RED {text}")
        return 0 if all(row[3] for row in rows) else 1
