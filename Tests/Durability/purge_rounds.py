#!/usr/bin/env python3
"""Kills Cistern (SIGKILL) while it purges, again and again: what was purged must stay purged.

    purge_rounds.py [--cistern PATH] [--rounds N] [--seed N]

In each round groups of answers are stored and then purged one group after the other, hard and soft by turns, by prefix and by tag by turns,
while clients go on fetching other paths; at a random moment the proxy is killed and the upstream goes down. After the restart nothing of
a group whose hard purge was answered may be served, and all that is left of a group whose soft purge was answered must be marked as stale.
Exits with 1 at the first that is not.
"""
import http.client
import json
import socket
import sys
import threading

import kill_rounds


class TaggingHandler(kill_rounds.Handler):
    def do_GET(self):
        tag = "-".join(self.path.split("/")[1:4])
        self.answer(kill_rounds.body_of(self.path), {"Cache-Control": "max-age=3600", "Cache-Tag": tag})


class PurgeRounds(kill_rounds.Rounds):
    handler = TaggingHandler
    groups = 10
    members = 30

    def admin(self, method, target):
        connection = http.client.HTTPConnection("localhost", timeout=20)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(20)
        connection.sock.connect(self.directory + "/admin.sock")
        answer, content = self.ask(connection, method, target)
        connection.close()
        if answer.status != 200:
            sys.exit(f"{method} {target} is answered with {answer.status}: {content}")
        return json.loads(content)

    def purge(self, number):
        try:
            for group in range(self.groups):
                what = f"prefix=/p/{number}/{group}/" if group % 4 < 2 else f"tag=p-{number}-{group}"
                is_soft = group % 2 == 1
                count = self.admin("POST", f"/-/purge?{what}" + ("&soft=true" if is_soft else ""))["purged"]
                if count != self.members:
                    sys.exit(f"{count} of {self.members} purged of group {group}")
                self.purged.append((group, is_soft))
        except (OSError, http.client.HTTPException, ValueError):
            pass

    def one(self, number):
        self.start()
        connection = self.connect()
        for group in range(self.groups):
            for member in range(self.members):
                self.get(f"/p/{number}/{group}/{member}", connection)
        self.purged = []
        workers = [threading.Thread(target=self.load, args=(number, worker)) for worker in range(2)]
        workers.append(threading.Thread(target=self.purge, args=(number,)))
        self.kill_under(workers, 0.25)
        for group, is_soft in self.purged:
            if is_soft:
                entries = self.admin("GET", f"/-/entries?prefix=/p/{number}/{group}/&limit=1000")["entries"]
                wrong = [entry["target"] for entry in entries if not entry["marked_stale"]]
            else:
                paths = [f"/p/{number}/{group}/{member}" for member in range(self.members)]
                wrong = [path for path in paths if self.get(path)[0] == 200]
            if wrong:
                self.fail(f"round {number}: purged, and back again: {wrong[:5]}")
            self.served += 1
        self.end_round()

    def report(self):
        return f"{self.served} purges lasted"


if __name__ == "__main__":
    kill_rounds.main(PurgeRounds, __doc__)
