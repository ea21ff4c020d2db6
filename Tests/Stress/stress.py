#!/usr/bin/env python3
"""Many users, a lying upstream, purges, switched modes, a store of 4 MiB, kill -9 and restarts, all at once, against the real program.

    stress.py [--cistern PATH] [--time SECONDS] [--seed N] [--workers N] [--tls] [--http2]

Every response says for which target, user and language it is and which version of it, with a checksum. A finding is one that is wrong, another's, cut
and passed for whole, older than one that had been stored before its request was sent (for the same target, user and language), or older than a write
that had finished before it (unless it says that it is old). Prints what happened how often, and each finding with what led to it; ends with 1 where
there is any. The same seed asks for the same things; what happens at the same time differs from run to run.
"""
import argparse
import collections
import json
import multiprocessing
import os
import queue as queues
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import clients
import upstream


class Proxy:
    def __init__(self, options, upstream_port, directory):
        self.options, self.directory = options, directory
        self.upstream = f"{'https' if options.tls else 'http'}://localhost:{upstream_port}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self):
        environment = dict(os.environ, CISTERN_UPSTREAM_FIRST_BYTE_TIMEOUT="2s", CISTERN_UPSTREAM_BETWEEN_BYTES_TIMEOUT="2s", CISTERN_UPSTREAM_HTTP2="off")
        if self.options.tls:
            environment["CISTERN_UPSTREAM_CA_FILE"] = self.directory + "/certificate.pem"
        self.log = open(self.directory + "/log", "ab")
        self.child = subprocess.Popen(
            [self.options.cistern, "serve", "--upstream", self.upstream, "--cache-dir", self.directory + "/store", "--cache-size", "4MiB",
             "--log-level", "error"] + self.listener(), env=environment, stderr=self.log)
        end = time.time() + 20
        while time.time() < end:
            if self.child.poll() is not None:
                sys.exit(f"the proxy ended with {self.child.returncode} at its start; see {self.directory}/log")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.01)
        sys.exit("the proxy does not listen")

    def listener(self):
        address = f"127.0.0.1:{self.port}"
        return ["--listen", f"https://{address}", "--tls-self-signed"] if self.options.http2 else ["--listen", address]

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def administrate(self, line):
        """Returns the status; the error's name where there was none."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(20)
                connection.connect(self.directory + "/store/admin.sock")
                connection.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                return int(connection.recv(4096)[9:12])
        except (OSError, ValueError) as error:
            return type(error).__name__


class Stress:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.directory = tempfile.mkdtemp(prefix="cistern-stress-")
        self.queue = multiprocessing.Queue()
        # Odd while the proxy is down, or a mode is set.
        self.epoch, self.modes = multiprocessing.Value("i", 0), multiprocessing.Value("i", 0)
        self.counts = collections.Counter()
        self.findings = []

    def certificate(self):
        key, certificate = self.directory + "/key.pem", self.directory + "/certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        return certificate, key

    def take(self):
        while True:
            try:
                kind, value = self.queue.get_nowait()
            except queues.Empty:
                return
            if kind == "counts":
                self.counts.update(value)
            else:
                self.findings.append(value)
                print("FINDING", json.dumps(value), flush=True)

    def disturb(self, proxy):
        draw = self.random.randrange(100)
        worker = self.random.randrange(self.options.workers)
        kind = self.random.choice(list(upstream.KINDS))
        if draw < 8:
            with self.epoch.get_lock():
                self.epoch.value += 1
            proxy.kill()
            proxy.start()
            with self.epoch.get_lock():
                self.epoch.value += 1
            self.counts["kills"] += 1
        elif draw < 25:
            mode = self.random.choice(["offline", "record", "replay"])
            with self.modes.get_lock():
                self.modes.value += 1
            prefix = f"/w{worker}/{kind}/"
            self.counts[f"mode_{mode}_{proxy.administrate(f'PUT /-/mode?mode={mode}&prefix={prefix}')}"] += 1
            time.sleep(self.random.uniform(0, 0.5))
            proxy.administrate(f"DELETE /-/mode?prefix={prefix}")
            with self.modes.get_lock():
                self.modes.value += 1
        else:
            soft = self.random.choice(["", "&soft=1"])
            what = self.random.choice([f"target=/w{worker}/{kind}/{self.random.randrange(24)}", f"prefix=/w{worker}/{kind}/", "all=1"])
            status = proxy.administrate(f"POST /-/purge?{what}{soft}")
            self.counts[f"purge_{what.partition('=')[0]}{'_soft' if soft else ''}_{status}"] += 1

    def run(self):
        ours, theirs = multiprocessing.Pipe()
        tls = self.certificate() if self.options.tls else None
        origin = multiprocessing.Process(target=upstream.run, args=(theirs, self.options.seed, tls, self.queue), daemon=True)
        origin.start()
        proxy = Proxy(self.options, ours.recv(), self.directory)
        proxy.start()
        arguments = [(number, proxy.port, self.options.seed, self.options.time, self.epoch, self.modes, self.queue,
                      "http2" if self.options.http2 else "http1") for number in range(self.options.workers)]
        workers = [multiprocessing.Process(target=clients.run, args=each, daemon=True) for each in arguments]
        for worker in workers:
            worker.start()
        end = time.monotonic() + self.options.time
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0.05, 1))
            if proxy.child.poll() is not None:
                self.findings.append({"kind": "the proxy has ended", "code": proxy.child.returncode})
                print("FINDING", json.dumps(self.findings[-1]), flush=True)
                break
            self.disturb(proxy)
            self.take()
        for worker in workers:
            worker.join(60)
        ours.send("end")
        origin.join(10)
        proxy.kill()
        self.take()
        return self.tell()

    def tell(self):
        for name in sorted(self.counts):
            print(f"{name:28} {self.counts[name]}")
        responses = sum(count for name, count in self.counts.items() if name.startswith("status_"))
        print(f"{responses} responses in {self.options.time} s, seed {self.options.seed}: {len(self.findings)} findings")
        if self.findings:
            print(f"the log and the store are in {self.directory}")
            return 1
        shutil.rmtree(self.directory, ignore_errors=True)
        return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--time", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tls", action="store_true", help="TLS to the upstream")
    parser.add_argument("--http2", action="store_true", help="clients speak HTTP/2 over TLS (needs the Python module h2)")
    sys.exit(Stress(parser.parse_args()).run())
