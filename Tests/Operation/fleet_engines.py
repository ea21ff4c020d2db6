"""Edges of a fleet at one address: an engine that can be read and takes no writes, one that returns with an older dump, and engines with which no node starts."""
import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from fleet import Node, Server, free_port, until

# Seconds.
BLIND_LIMIT = 3


def node(trial, ports):
    servers = ",".join(f"redis://127.0.0.1:{port}" for port in ports)
    return Node(trial, "--set", f"share.servers={servers}", "--set", f"share.secret_file={trial.secret}", "--set", "share.timeout=200ms",
                "--set", f"share.blind_limit={BLIND_LIMIT}s")


def version(node, path):
    return json.loads(node.get(path)[1])["version"]


def longest(nodes, path, wanted, limit):
    """Seconds until all of them serve a version."""
    began = time.monotonic()
    while time.monotonic() - began < limit:
        if all(version(one, path) >= wanted for one in nodes):
            break
        time.sleep(0.05)
    return time.monotonic() - began


@contextlib.contextmanager
def fleet(trial, count, replicas):
    """Nodes that see the log of a primary with replicas."""
    primary = Server(trial.directory)
    servers = [primary] + [Server(trial.directory, "--replicaof", "127.0.0.1", str(primary.port)) for _ in range(replicas)]
    nodes = []
    try:
        until("a replica does not follow", 20, lambda: all("master_link_status:down" not in one.ask("info", "replication") for one in servers))
        for _ in range(count):
            nodes.append(node(trial, [primary.port]))
        until("a node does not see the log", 20, lambda: all(one.sees() for one in nodes))
        yield servers, nodes
    finally:
        for one in nodes:
            one.process.kill()
            one.process.wait()
        for server in servers:
            server.kill()


def mute(trial):
    ways = (
        ("full", ("config", "set", "maxmemory", "1"), ("config", "set", "maxmemory", "0")),
        ("without the right to XADD", ("acl", "setuser", "default", "-xadd"), ("acl", "setuser", "default", "+xadd")))
    with fleet(trial, 3, 0) as ((engine,), nodes):
        before, began = engine.appends(), time.monotonic()
        time.sleep(12)
        intervals = (time.monotonic() - began) / (BLIND_LIMIT / 2)
        greetings = (engine.appends() - before) / intervals
        trial.tell("three quiet nodes: greetings in half of share.blind_limit, of all", greetings, "", "3", 0 < greetings <= 3)
        for place, (name, close, reopen) in enumerate(ways):
            path = f"/mute/{place}"
            for one in nodes:
                one.get(path)
            time.sleep(BLIND_LIMIT)
            engine.ask(*close)
            wanted = trial.write(path)
            status = nodes[0].purge(path)
            took = longest(nodes, path, wanted, 15)
            trial.tell(f"an engine that is {name}: what was purged is served for", took, "s", f"{BLIND_LIMIT} s", status == 202 and took <= BLIND_LIMIT)
            trial.tell(f"an engine that is {name}: nodes that are connected", sum(one.sees() for one in nodes), "", "0", not any(one.sees() for one in nodes))
            began = time.monotonic()
            engine.ask(*reopen)
            until("a node stays disconnected", 60, lambda: all(one.sees() for one in nodes))
            took = time.monotonic() - began
            trial.tell(f"an engine that was {name}: all are connected after", took, "s", "31 s", took <= 31)


def dump(trial):
    """The node that purged ends, and the engine is back without the purge, while a third node sleeps."""
    with fleet(trial, 3, 1) as (servers, nodes):
        paths = [f"/dump/{number}" for number in range(20)]
        for path in paths:
            for one in nodes:
                one.get(path)
        for server in servers:
            server.ask("save")
            shutil.copy(server.directory / "dump.rdb", server.directory / "older")
        nodes[2].process.send_signal(signal.SIGSTOP)
        wanted = {path: trial.write(path) for path in paths}
        durable = [path for path in paths if nodes[0].purge(path) == 200]
        time.sleep(1)
        nodes[0].process.kill()
        nodes[0].process.wait()
        for server in servers:
            server.kill()
            shutil.copy(server.directory / "older", server.directory / "dump.rdb")
        for server in servers:
            server.start()
        nodes[0].process = nodes[0].start()
        nodes[2].process.send_signal(signal.SIGCONT)
        until("a node does not see the log", 30, lambda: all(one.is_ready() and one.sees() for one in nodes))
        # What the others say is there by then.
        time.sleep(1)
        lost = [path for path in durable for one in nodes if version(one, path) < wanted[path]]
        gaps = nodes[2].metric("cistern_share_gaps_total")
        trial.tell("an older dump: purges answered with 200 that a node does not obey", len(lost), "", "0", durable and not lost)
        trial.tell("an older dump: gaps of the node that slept", gaps, "", "1", gaps >= 1)


class OldRedis:
    """Says that it is Redis 6.2."""

    def __init__(self):
        self.port = free_port()
        self.socket = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.reply, args=(connection,), daemon=True).start()

    def reply(self, connection):
        text = b"# Server\r\nredis_version:6.2.14\r\nrun_id:old\r\nrole:master\r\n"
        with contextlib.suppress(OSError):
            while words := connection.recv(65536):
                for command in re.findall(rb"\*\d+\r\n\$\d+\r\n(\w+)", words):
                    connection.sendall(b"$%d\r\n%s\r\n" % (len(text), text) if command.upper() == b"INFO" else b"-ERR unknown command\r\n")

    def kill(self):
        self.socket.close()


def ends_at_start(trial, *ports):
    """The exit codes of `serve` and `check`."""
    servers = ",".join(f"redis://127.0.0.1:{port}" for port in ports)
    codes = []
    for command in ("serve", "check"):
        words = [trial.options.cistern, command, "--upstream", f"http://127.0.0.1:{trial.origin.port}", "--listen", f"127.0.0.1:{free_port()}", "--cache-dir",
                 str(trial.directory / f"refused-{ports[0]}"), "--set", f"share.servers={servers}", "--set", f"share.secret_file={trial.secret}"]
        try:
            codes.append(subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10).returncode)
        except subprocess.TimeoutExpired:
            codes.append(0)
    return codes


def refused(trial):
    servers = [Server(trial.directory), Server(trial.directory)]
    old = OldRedis()
    try:
        for name, ports in (("two servers that are not a Cluster", [one.port for one in servers]), ("Redis 6.2", [old.port])):
            for command, code in zip(("serve", "check"), ends_at_start(trial, *ports)):
                trial.tell(f"{name}: {command} ends with", code, "", "78", code == 78)
    finally:
        for server in (*servers, old):
            server.kill()
