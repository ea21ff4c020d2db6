#!/usr/bin/env python3
"""Kills Cistern (SIGKILL) right after a client has the response to a write: what was stored before the write must not come back.

    write_rounds.py [--cistern PATH] [--rounds N] [--seed N]

In each round copies are stored, for a user and for everybody. Then writers write to them one after the other, while other clients fetch long texts that the store
codes; as soon as one of the writers has so many responses, it kills the proxy. After the restart, without the upstream, nothing may be served that is older than a
write whose response came; unless that response says that its mark was not written. Exits with 1 at the first that is.
"""
import argparse
import http.client
import json
import random
import shutil
import signal
import sys
import threading

import kill_rounds

LONG = json.dumps({"text": "".join(random.Random(1).choice("abcdefgh ") for _ in range(600_000))}).encode()


class WritingHandler(kill_rounds.Handler):
    # Head and content in one packet: else each answer waits for an acknowledgement that is delayed.
    wbufsize = 1 << 20
    versions = {}

    def do_GET(self):
        is_long = self.path.startswith("/long/")
        body = LONG if is_long else json.dumps({"version": self.versions.get(self.path, 0)}).encode()
        self.answer(body, "max-age=3600")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.versions[self.path] = self.versions.get(self.path, 0) + 1
        self.answer(json.dumps({"version": self.versions[self.path]}).encode(), "no-store")

    def answer(self, body, control):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", control)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


kill_rounds.Handler = WritingHandler
USERS = [{}, {"Authorization": "Bearer user"}]


class WriteRounds(kill_rounds.Rounds):
    copies = 30
    writers = 3
    early = 0

    def ask(self, connection, method, path, fields):
        connection.request(method, path, body=b"{}" if method == "POST" else None, headers=fields)
        answer = connection.getresponse()
        return answer, answer.read()

    def fetch_long_texts(self, number, worker):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            for i in range(10_000):
                self.ask(connection, "GET", f"/long/{number}/{worker}/{i}", {})
        except (OSError, http.client.HTTPException):
            pass

    def write(self, number, worker, last):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            for i in range(worker, self.copies, self.writers):
                path = f"/w/{number}/{i}"
                answer, content = self.ask(connection, "POST", path, {})
                if i // self.writers >= last:
                    self.child.send_signal(signal.SIGKILL)
                if answer.status == 200:
                    self.written[path] = json.loads(content)["version"]
                    if "marks_not_written" in answer.getheader("Cache-Status", ""):
                        self.early += 1
                        del self.written[path]
        except (OSError, http.client.HTTPException, ValueError):
            pass

    def one(self, number):
        self.start()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        for i in range(self.copies):
            for fields in USERS:
                self.ask(connection, "GET", f"/w/{number}/{i}", fields)
        self.written = {}
        last = self.random.randrange(self.copies // self.writers)
        threads = [threading.Thread(target=self.fetch_long_texts, args=(number, worker)) for worker in range(2)]
        threads += [threading.Thread(target=self.write, args=(number, worker, last)) for worker in range(self.writers)]
        for thread in threads:
            thread.start()
        self.child.wait()
        for thread in threads:
            thread.join()
        self.origin.down()
        self.start()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        for path, version in self.written.items():
            for fields in USERS:
                answer, content = self.ask(connection, "GET", path, fields)
                if answer.status == 200 and json.loads(content)["version"] < version:
                    print(f"round {number}: {path} was written, and an older copy is back: {answer.getheader('Cache-Status')}", flush=True)
                    self.child.kill()
                    sys.exit(1)
            self.served += 1
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.origin.up()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--size", default="16MiB")
    options = parser.parse_args()
    options.seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    rounds = WriteRounds(options)
    try:
        for number in range(options.rounds):
            rounds.one(number)
            if (number + 1) % 20 == 0:
                print(f"{number + 1} rounds: {rounds.served} writes lasted", flush=True)
        if not rounds.served:
            sys.exit("no write was ever answered: the test shows nothing")
        print(f"{options.rounds} rounds: {rounds.served} writes lasted, none was forgotten; {rounds.early} went out before their marks")
    finally:
        shutil.rmtree(rounds.directory, ignore_errors=True)


if __name__ == "__main__":
    main()
