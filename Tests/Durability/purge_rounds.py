#!/usr/bin/env python3
"""Kills Cistern (SIGKILL) while it purges, again and again: what was purged must stay purged.

    purge_rounds.py [--cistern PATH] [--rounds N] [--seed N]

In each round groups of answers are stored and then purged one group after the other, hard and soft by turns, by prefix and by tag by turns,
while clients go on fetching other paths; at a random moment the proxy is killed and the upstream goes down. After the restart nothing of
a group whose hard purge was answered may be served, and all that is left of a group whose soft purge was answered must be marked as stale.
Exits with 1 at the first that is not.
"""
import argparse
import http.client
import json
import random
import shutil
import signal
import socket
import sys
import threading

import kill_rounds


class TaggingHandler(kill_rounds.Handler):
    # Head and content in one packet: else each answer waits for an acknowledgement that is delayed.
    wbufsize = 1 << 17

    def do_GET(self):
        body = kill_rounds.body_of(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Cache-Tag", "-".join(self.path.split("/")[1:4]))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


kill_rounds.Handler = TaggingHandler


class PurgeRounds(kill_rounds.Rounds):
    groups = 10
    members = 30

    def admin(self, method, target):
        connection = http.client.HTTPConnection("localhost", timeout=20)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(20)
        connection.sock.connect(self.directory + "/admin.sock")
        connection.request(method, target)
        answer = connection.getresponse()
        value = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            sys.exit(f"{method} {target} is answered with {answer.status}: {value}")
        return value

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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
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
                print(f"round {number}: purged, and back again: {wrong[:5]}", flush=True)
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
    parser.add_argument("--size", default="64MiB")
    options = parser.parse_args()
    options.seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    rounds = PurgeRounds(options)
    try:
        for number in range(options.rounds):
            rounds.one(number)
            if (number + 1) % 20 == 0:
                print(f"{number + 1} rounds: {rounds.served} purges lasted", flush=True)
        print(f"{options.rounds} rounds: {rounds.served} purges lasted, none came back")
    finally:
        shutil.rmtree(rounds.directory, ignore_errors=True)


if __name__ == "__main__":
    main()
