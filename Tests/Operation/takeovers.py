#!/usr/bin/env python3
"""One Cistern after the other takes over, and reloads, under load, against the real program.

    takeovers.py [--cistern PATH] [--successor PATH] [--entries N] [--times N] [--rate N] [--connections N] [--shards N]

A store of many entries; clients that ask at a steady rate on kept and on new connections; writers of which each looks at once, elsewhere, for what it has
written; and somebody who reads /metrics all the time. Meanwhile a process takes over from the one before and is then reloaded, so many times. Nothing may
be lost or refused, no counter may go down, no write may be forgotten, no request may take longer than 200 ms from the moment at which it was due, and
memory and descriptors may not grow with the processes. Prints what happened; ends with 1 where anything is wrong.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import upstream

HERE = Path(__file__).parent
PAUSE_BAR_MICROSECONDS = 200_000
WRITERS = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, seconds, done):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {seconds} s")
        time.sleep(0.005)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Trial:
    def __init__(self, options):
        self.options = options
        self.directory = Path(tempfile.mkdtemp(prefix="cistern-operation-"))
        self.port, self.admin, self.upstream = free_port(), free_port(), free_port()
        self.settings = self.directory / "cistern.yaml"
        self.write_settings(0)
        self.log = open(self.directory / "log", "ab")
        self.wrong = []
        self.is_over = threading.Event()

    def write_settings(self, number):
        """Each reload has another value of something."""
        self.settings.write_text(
            f"upstream: {{url: http://127.0.0.1:{self.upstream}, total_timeout: {30 + number % 7}s}}\nlisten: [127.0.0.1:{self.port}]\n"
            f"admin_listen: [127.0.0.1:{self.admin}]\nadmin: {{socket: {self.directory}/admin.sock}}\nshards: {self.options.shards}\n"
            f"store: {{directory: {self.directory}/store, size: 4GiB}}\n")

    def start(self, program, *arguments):
        reading, writing = os.pipe()
        child = subprocess.Popen(
            [program, "serve", "--config", str(self.settings), "--ready-fd", str(writing), *arguments],
            stdout=self.log, stderr=self.log, pass_fds=[writing])
        os.close(writing)
        with open(reading, "rb") as ready:
            if not ready.read():
                raise SystemExit(f"a process ended with {child.wait()} at its start; see {self.directory}/log")
        return child

    def begin(self):
        """The upstream and the first process."""
        self.origin = multiprocessing.Process(target=upstream.run, args=(self.upstream,), daemon=True)
        self.origin.start()
        until("the upstream", 10, lambda: listens(self.upstream))
        self.running = self.start(self.options.cistern)

    def end_clients(self, threads):
        self.is_over.set()
        for thread in threads:
            thread.join()

    def finish(self):
        """No client is there any more."""
        self.running.terminate()
        self.running.wait()
        self.origin.kill()

    def judge(self):
        for sentence in self.wrong[:20]:
            print(f"WRONG: {sentence}")
        print(f"{len(self.wrong)} wrong" if self.wrong else "all well")
        if not self.wrong:
            subprocess.run(["rm", "-r", str(self.directory)], check=True)
        sys.exit(1 if self.wrong else 0)

    # MARK: Those who ask

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    @staticmethod
    def exchange(connection, method, target, fields={}):
        """The version that came, and its Cache-Status."""
        connection.request(method, target, headers=fields)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise ValueError(f"{method} {target}: {response.status} {content[:200]}")
        return json.loads(content)["version"], response.getheader("Cache-Status", "")

    def fill(self):
        """Pipelined, so that the upstream is what takes the time."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            for first in range(0, self.options.entries, 50):
                wanted = range(first, min(first + 50, self.options.entries))
                connection.sendall(b"".join(b"GET /items/%d HTTP/1.1\r\nHost: trial\r\n\r\n" % number for number in wanted))
                received = b""
                while received.count(b'"padding"') < len(wanted) or not received.endswith(b'"}'):
                    more = connection.recv(1 << 20)
                    if not more:
                        raise SystemExit("the connection ended while the store was filled")
                    received += more

    def start_load(self):
        requests = self.directory / "requests"
        chance = random.Random(1)
        targets = (f"/pass/{number}" if number % 10 == 0 else f"/items/{chance.randrange(self.options.entries)}" for number in range(100_000))
        requests.write_text("".join(f"GET {target} HTTP/1.1\r\nHost: trial\r\n\r\n\0" for target in targets))
        program = self.directory / "load"
        subprocess.run(["cc", "-O2", "-o", str(program), str(HERE / "load.c")], check=True)
        self.load = subprocess.Popen(
            [str(program), str(self.port), str(self.options.connections), str(self.options.rate), str(requests)], stdout=subprocess.PIPE, text=True)

    def write_and_look(self, number, counts):
        """On its kept connection, which may lead to the old process, and at once on a new one, which leads to the new process or the only one."""
        target, kept = f"/versions/{number}", self.connect()
        while not self.is_over.is_set():
            try:
                written, _ = self.exchange(kept, "POST", target)
                other = self.connect()
                seen = [self.exchange(connection, "GET", target)[0] for connection in (other, kept)]
                other.close()
                counts[number] += 1
                if min(seen) < written:
                    self.wrong.append(f"{target}: version {written} was written, and then {seen} were seen")
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.wrong.append(f"writer {number}: {error!r}")
                kept.close()

    def read_metrics(self):
        last, pages = {}, 0
        while not self.is_over.is_set():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.admin, 30)
                connection.request("GET", "/metrics")
                page = connection.getresponse().read().decode()
                connection.close()
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(f"/metrics: {error!r}")
                continue
            pages += 1
            counters = set(re.findall(r"^# TYPE (\S+) (?:counter|histogram)$", page, re.M))
            now = {}
            for sample, value in re.findall(r"^(\w+(?:\{[^}]*\})?) (\S+)$", page, re.M):
                if re.sub(r"_(bucket|sum|count)$", "", sample.split("{")[0]) in counters or sample.split("{")[0] in counters:
                    now[sample] = float(value)
            down = [f"{sample}: {value:.0f} after {last[sample]:.0f}" for sample, value in now.items() if value < last.get(sample, 0) - 1e-6]
            down += [f"{sample}: gone after {value}" for sample, value in last.items() if sample not in now and value]
            if down:
                self.wrong.append(f"/metrics: {len(down)} counters went down: {'; '.join(down[:3])}")
            last = {**last, **now}
            time.sleep(0.05)
        self.pages = pages

    # MARK: The operator

    def take_over(self):
        """Seconds until the new process was ready, and then until the old one had ended."""
        began, running = time.monotonic(), self.running
        successor = self.start(self.options.successor or self.options.cistern, "--take-over")
        ready = time.monotonic()
        until("the end of the old process", 40, lambda: running.poll() is not None)
        if running.returncode:
            self.wrong.append(f"the old process ended with {running.returncode}")
        self.running = successor
        return ready - began, time.monotonic() - ready

    def reload(self, number):
        self.write_settings(number)
        before = self.reloads()
        self.running.send_signal(signal.SIGHUP)
        until("a reload", 20, lambda: self.reloads() > before)

    def reloads(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, 30)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        return sum(float(value) for value in re.findall(r'^cistern_settings_reloads_total\{[^}]*\} (\S+)$', page, re.M))

    @staticmethod
    def weight(child):
        """Bytes that are its own, and descriptors."""
        anonymous = int(re.search(r"^RssAnon:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text(), re.M)[1]) * 1024
        return anonymous, len(os.listdir(f"/proc/{child.pid}/fd"))

    def run(self):
        self.begin()
        self.fill()
        self.start_load()
        counts = [0] * WRITERS
        threads = [threading.Thread(target=self.write_and_look, args=(number, counts)) for number in range(WRITERS)]
        threads.append(threading.Thread(target=self.read_metrics))
        for thread in threads:
            thread.start()
        starts, ends, weights = [], [], []
        try:
            for number in range(self.options.times):
                start, end = self.take_over()
                self.reload(number + 1)
                starts.append(start)
                ends.append(end)
                weights.append(self.weight(self.running))
        finally:
            self.end_clients(threads)
            self.load.terminate()
            loaded = json.loads(self.load.communicate()[0])
            self.finish()
        self.tell(loaded, sum(counts), starts, ends, weights)

    def tell(self, loaded, written, starts, ends, weights):
        print(f"{self.options.times} take-overs and as many reloads with {self.options.entries:,} entries, {self.options.rate:,} requests/s on {self.options.connections} connections")
        print(f"requests: {loaded['due']:,} due, {loaded['done']:,} done; {loaded['refused']} refused, {loaded['cut']} cut, {loaded['wrong']} not 200")
        print(f"the longest took {loaded['longest'] / 1000:.1f} ms (bar {PAUSE_BAR_MICROSECONDS / 1000:.0f}); {loaded['slow']} longer than that")
        print(f"writes, each looked for elsewhere at once: {written:,}; pages of metrics: {self.pages:,}")
        print(f"start to ready: {max(starts):.2f} s at most; then the old one ended within {max(ends):.2f} s")
        print(f"memory of its own: {weights[0][0] / 2**20:.1f} MiB of the second process, {weights[-1][0] / 2**20:.1f} MiB of the last; "
              f"descriptors: {weights[0][1]}, {weights[-1][1]}")
        if loaded["refused"] + loaded["cut"] + loaded["wrong"]:
            self.wrong.append("requests were lost")
        if loaded["longest"] > PAUSE_BAR_MICROSECONDS:
            self.wrong.append("a request took too long")
        self.judge()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--successor", help="the program that takes over, where it is another one")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--shards", type=int, default=2)
    Trial(parser.parse_args()).run()
