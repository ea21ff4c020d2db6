#!/usr/bin/env python3
"""Writers and readers while one Cistern after the other takes over, against the real program: no read may bring what was so before a write.

    writers.py [--cistern PATH] [--successor PATH] [--times N] [--shards N]

Writers keep their connections, so many writes end in the old process; readers, with credentials and without, ask on new connections and on kept ones. A read that
begins after a write's response must not bring an older version, wherever either was served. Ends with 1 where one does, where a request is lost, or where too little was
looked at. `.ci/run` runs it: fourteen take-overs take about 15 s.
"""
import argparse
import http.client
import threading
import time

import takeovers

TARGETS = 24
READERS = 8


class Trial(takeovers.Trial):
    def __init__(self, options):
        super().__init__(options)
        # The latest version that a writer knows of, by target. Each target has one writer.
        self.written = [0] * TARGETS
        self.writes = self.reads = self.hits = self.stale = 0
        self.lock = threading.Lock()

    def note(self, who, error):
        with self.lock:
            self.wrong.append(f"{who}: {error!r}")

    def write(self, number):
        connection = self.connect()
        while not self.is_over.is_set():
            try:
                version, _ = self.exchange(connection, "POST", f"/versions/{number}")
                self.written[number] = version
                with self.lock:
                    self.writes += 1
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.note(f"writer {number}", error)
                connection.close()

    def read(self, number):
        fields = {"Authorization": f"Bearer user-{number}"} if number % 2 else {}
        kept, place = self.connect(), number
        while not self.is_over.is_set():
            place = (place + 1) % TARGETS
            target, connection = f"/versions/{place}", kept if number % 4 < 2 else self.connect()
            least = self.written[place]
            try:
                version, status = self.exchange(connection, "GET", target, fields)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.note(f"reader {number}", error)
                kept.close()
                continue
            if connection is not kept:
                connection.close()
            with self.lock:
                self.reads += 1
                self.hits += "; hit" in status
                if version < least:
                    self.stale += 1
                    self.wrong.append(f"{target}: version {least} was written, and then {version} was read ({status}, {fields or 'no credentials'})")
            # The machine has other work too.
            time.sleep(0.002)

    def run(self):
        self.begin()
        threads = [threading.Thread(target=self.write, args=(number,)) for number in range(TARGETS)]
        threads += [threading.Thread(target=self.read, args=(number,)) for number in range(READERS)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(self.options.times):
                self.take_over()
                time.sleep(0.3)
        finally:
            self.end_clients(threads)
            self.finish()
        print(f"{self.options.times} take-overs; {self.writes:,} writes, {self.reads:,} reads, {self.hits:,} of them hits; {self.stale} older than a write before them")
        if self.hits < 10 * self.options.times or self.writes < 10 * self.options.times:
            self.wrong.append("too little was looked at")
        self.judge()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--successor", help="the program that takes over, where it is another one")
    parser.add_argument("--times", type=int, default=14)
    parser.add_argument("--shards", type=int, default=2)
    Trial(parser.parse_args()).run()
