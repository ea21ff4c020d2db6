#!/usr/bin/env python3
"""Kills Cistern (SIGKILL) right after a client has the response to a write: what was stored before the write must not come back.

    write_rounds.py [--cistern PATH] [--rounds N] [--seed N]

In each round copies are stored, for a user and for everybody. Then writers write to them one after the other, while other clients fetch long texts that the store
codes; as soon as one of the writers has so many responses, it kills the proxy. After the restart, without the upstream, nothing may be served that is older than a
write whose response came; unless that response says that its mark was not written. Exits with 1 at the first that is.
"""
import http.client
import json
import random
import threading

import kill_rounds

LONG = json.dumps({"text": "".join(random.Random(1).choice("abcdefgh ") for _ in range(600_000))}).encode()
USERS = [{}, {"Authorization": "Bearer user"}]


class WritingHandler(kill_rounds.Handler):
    versions = {}

    def do_GET(self):
        is_long = self.path.startswith("/long/")
        body = LONG if is_long else json.dumps({"version": self.versions.get(self.path, 0)}).encode()
        self.answer(body, {"Cache-Control": "max-age=3600"})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.versions[self.path] = self.versions.get(self.path, 0) + 1
        self.answer(json.dumps({"version": self.versions[self.path]}).encode(), {"Cache-Control": "no-store"})


class WriteRounds(kill_rounds.Rounds):
    handler = WritingHandler
    copies = 30
    writers = 3
    early = 0

    def fetch_long_texts(self, number, worker):
        connection = self.connect()
        try:
            for i in range(10_000):
                self.ask(connection, "GET", f"/long/{number}/{worker}/{i}")
        except (OSError, http.client.HTTPException):
            pass

    def write(self, number, worker, last):
        connection = self.connect()
        try:
            for i in range(worker, self.copies, self.writers):
                path = f"/w/{number}/{i}"
                answer, content = self.ask(connection, "POST", path, body=b"{}")
                if i // self.writers >= last:
                    self.kill()
                if answer.status == 200:
                    self.written[path] = json.loads(content)["version"]
                    if "marks_not_written" in answer.getheader("Cache-Status", ""):
                        self.early += 1
                        del self.written[path]
        except (OSError, http.client.HTTPException, ValueError):
            pass

    def one(self, number):
        self.start()
        connection = self.connect()
        for i in range(self.copies):
            for fields in USERS:
                self.ask(connection, "GET", f"/w/{number}/{i}", fields)
        self.written = {}
        last = self.random.randrange(self.copies // self.writers)
        workers = [threading.Thread(target=self.fetch_long_texts, args=(number, worker)) for worker in range(2)]
        workers += [threading.Thread(target=self.write, args=(number, worker, last)) for worker in range(self.writers)]
        self.kill_under(workers)
        connection = self.connect()
        for path, version in self.written.items():
            for fields in USERS:
                answer, content = self.ask(connection, "GET", path, fields)
                if answer.status == 200 and json.loads(content)["version"] < version:
                    self.fail(f"round {number}: {path} was written, and an older copy is back: {answer.getheader('Cache-Status')}")
            self.served += 1
        self.end_round()

    def report(self):
        return f"{self.served} writes lasted; {self.early} went out before their marks"


if __name__ == "__main__":
    kill_rounds.main(WriteRounds, __doc__, size="16MiB")
