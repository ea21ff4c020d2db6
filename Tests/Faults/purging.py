"""The proxy is killed (SIGKILL) while stored answers are purged, again and again: what was said to be purged stays purged."""
import http.client
import os
import random
import shutil
import socket
import tempfile
import threading
import time

from load import content
from origin import Origin
from play import Cistern, Client, Wrong
from rows import answer

SINGLES, GROUPS, MEMBERS = 200, 20, 10


class Admin(http.client.HTTPConnection):
    """The admin interface's Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def purge(self, query):
        self.request("POST", f"/-/purge?{query}")
        got = self.getresponse()
        text = got.read()
        if got.status != 200:
            raise Wrong(f"purge?{query}: {got.status} {text}")


class Purging:
    def __init__(self, options):
        self.options = options
        self.chance = random.Random(1)
        self.gone = self.kept = self.lost = 0

    def run(self):
        directory = tempfile.mkdtemp(prefix="cistern-purging-")
        self.origin = Origin()
        self.serve()
        self.admin = os.path.join(directory, "store", "admin.sock")
        self.cistern = Cistern(self.options.cistern, f"http://127.0.0.1:{self.origin.port}", directory, ["--cache-size", "64MiB"])
        try:
            for number in range(self.options.rounds):
                self.round(number)
        except Wrong as error:
            print(f"RED {error}")
            return 1
        finally:
            self.cistern.kill()
            self.origin.close()
            shutil.rmtree(directory, ignore_errors=True)
        print(f"{self.options.rounds} rounds of kill -9 while purging: {self.gone:,} answers purged and gone, {self.kept:,} others served exact, "
              f"{self.lost:,} not yet written")
        return 0 if self.gone else 1

    def serve(self):
        self.origin.good(lambda target: answer(content(target.decode())))

    def round(self, number):
        """Fills, purges in random order, is killed, starts again with nothing upstream."""
        groups = {f"prefix=/{number}/g{group}/": [f"/{number}/g{group}/{member}" for member in range(MEMBERS)] for group in range(GROUPS)}
        groups |= {f"target=/{number}/{single}": [f"/{number}/{single}"] for single in range(SINGLES)}
        with Client(self.cistern.socket) as client:
            for target in (target for targets in groups.values() for target in targets):
                client.get(target)
        purged, asked = [], []
        worker = threading.Thread(target=self.purge, args=(groups, purged, asked))
        worker.start()
        time.sleep(self.chance.uniform(0.05, 0.6))
        self.cistern.kill()
        worker.join()
        self.origin.down()
        self.cistern.start()
        self.check(groups, purged, asked)
        self.cistern.kill()
        self.serve()
        self.cistern.start()

    def purge(self, groups, purged, asked):
        queries = list(groups)
        self.chance.shuffle(queries)
        admin = Admin(self.admin)
        try:
            for query in queries[:len(queries) // 2]:
                asked.append(query)
                admin.purge(query)
                purged.append(query)
        except (OSError, http.client.HTTPException):
            pass

    def check(self, groups, purged, asked):
        with Client(self.cistern.socket) as client:
            for query, targets in groups.items():
                for target in targets:
                    got = client.get(target)
                    if got.status == 200 and got.content != content(target):
                        raise Wrong(f"{target}: {got}")
                    if query in purged and got.status == 200:
                        raise Wrong(f"{target} came back after {query}")
                    if query in purged:
                        self.gone += 1
                    elif got.status == 200:
                        self.kept += 1
                    elif query not in asked:
                        self.lost += 1
