#!/usr/bin/env python3
"""Bad days of a fleet: whole nodes, real engines, and clients at each node who know what they may see.

    fleet-days.py [--cistern PATH] [--server PATH] [--only NAME,...]

Each day has three nodes, each with a wire of its own to a primary with a replica; two clients at each node ask all the time, and somebody purges. Then
something befalls them, and ends. No client gets an error or waits for the engine; what was purged is served no longer than promised; no user gets what is
another's; memory is bounded; afterwards all is well by itself. One line for each day; ends with 1 where one is bad.
"""
import argparse
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from fleet import Ground, HERE, free_port, until
from fleet_day import BLIND_LIMIT, Day, NOTICED, USERS


def split(ground, name, ways):
    """One node can say nothing, or hear nothing, or both."""
    with Day(ground, name) as day:
        day.wires[0].held = ways
        time.sleep(8)
        day.wires[0].held = set()


def slow(ground):
    with Day(ground, "each command takes the engine a second") as day:
        for wire in day.wires:
            wire.delay = 1
        time.sleep(10)
        for wire in day.wires:
            wire.delay = 0


def half_open(ground):
    with Day(ground, "connections that nobody answers on any more") as day:
        for wire in day.wires:
            wire.forget()
        time.sleep(4)


def gone(ground):
    with Day(ground, "the engine is gone, and back with its data") as day:
        day.primary.kill()
        time.sleep(8)
        day.primary.start()


def gone_empty(ground):
    with Day(ground, "the engine is gone, and back without its data", gaps=True) as day:
        for server in (day.primary, day.replica):
            server.kill()
        time.sleep(8)
        for server in (day.primary, day.replica):
            shutil.rmtree(server.directory / "appendonlydir")
            server.start()


def flushed(ground):
    with Day(ground, "FLUSHALL, three times", gaps=True) as day:
        for _ in range(3):
            day.primary.ask("flushall")
            time.sleep(2)


def switched(ground):
    """Its name leads to the replica, which may lack what came last."""
    with Day(ground, "a replica is promoted, and the former primary is its replica") as day:
        day.primary.ask("replicaof", "127.0.0.1", str(day.replica.port))
        time.sleep(2)
        day.replica.ask("replicaof", "no", "one")
        day.primary, day.replica = day.replica, day.primary
        for wire in day.wires:
            wire.to = day.port
            wire.forget()
        time.sleep(3)


def fill(day, count):
    """Distinct targets, at all nodes in turn."""
    for number in range(count):
        day.nodes[number % 3].get(f"/many/{random.getrandbits(60)}")


def evicted(ground):
    # What is kept for replicas counts as memory, and does not go.
    with Day(ground, "memory is full, and responses go", words=("--repl-backlog-size", "64kb")) as day:
        day.primary.ask("config", "set", "maxmemory-policy", "volatile-lfu")
        limit = day.primary.figure("used_memory") + (4 << 20)
        day.primary.ask("config", "set", "maxmemory", str(limit))
        fill(day, 9_000)
        if not day.primary.figure("evicted_keys"):
            day.complain("nothing was evicted", day.primary.ask("info", "memory"))
        if day.primary.figure("used_memory") > limit * 1.1:
            day.complain("memory", day.primary.ask("info", "memory"))


def untold(day):
    """What one node purges and cannot tell the others is not served by them for longer than the limit: they know that they hear nothing."""
    path = "/all/0"
    version = day.ground.write(path)
    if day.nodes[0].purge(path) != 202:
        day.complain("errors", "a purge that cannot be told is not answered with 202")
    time.sleep(BLIND_LIMIT + NOTICED)
    for node in day.nodes[1:]:
        if json.loads(node.get(path)[1])["version"] < version:
            day.complain("purged and served", f"{path} at {node.port}, and nobody can be told")


def full(ground):
    with Day(ground, "memory is full, and nothing may go") as day:
        day.primary.ask("config", "set", "maxmemory", "1mb")
        time.sleep(1)
        untold(day)
        day.primary.ask("config", "set", "maxmemory", "0")


def dumped(ground):
    """A node that has purged ends, and the engine is back without its purges, while another node sleeps."""
    with Day(ground, "the engine is back with an older dump", gaps=True) as day:
        ended, _, asleep = day.watches
        servers = (day.primary, day.replica)
        for server in servers:
            shutil.copytree(server.directory / "appendonlydir", server.directory / "older")
        asleep.is_paused = True
        time.sleep(1)
        asleep.node.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        ended.is_paused = True
        time.sleep(1)
        ended.node.process.kill()
        ended.node.process.wait()
        for server in servers:
            server.kill()
            shutil.rmtree(server.directory / "appendonlydir")
            shutil.move(server.directory / "older", server.directory / "appendonlydir")
        for server in servers:
            server.start()
        ended.node.process = ended.node.start()
        ground.children.append(ended.node.process)
        until("a node does not start", 10, ended.node.is_ready)
        for watch in (ended, asleep):
            watch.since, watch.is_paused = None, False
        time.sleep(0.5)
        asleep.node.process.send_signal(signal.SIGCONT)
        time.sleep(3)


def sleeping(ground):
    with Day(ground, "the log is trimmed past a node that sleeps", gaps=True) as day:
        watch = day.watches[2]
        watch.is_paused = True
        time.sleep(1)
        watch.node.process.send_signal(signal.SIGSTOP)
        time.sleep(8)
        day.primary.ask("xtrim", "cistern:main:{log}", "maxlen", "0")
        watch.since, watch.is_paused = None, False
        # Requests wait already when it wakes.
        time.sleep(0.5)
        watch.node.process.send_signal(signal.SIGCONT)
        time.sleep(3)


class UserDay(Day):
    """With the user that the documents give to nodes."""

    def prepare(self):
        text = (HERE.parent.parent / "Configuration/Guides/Several-Nodes.md").read_text()
        self.user = re.search(r"^user cistern (.*)$", text, re.M)[1].replace("shop", "main").replace("PASSWORD", "right").split()
        (self.primary.directory / "password").write_text("right")
        self.settings = ("user=cistern", f"password_file={self.primary.directory / 'password'}")
        self.allow(*self.user)

    def allow(self, *words):
        for server in (self.primary, self.replica):
            if server.ask("acl", "setuser", "cistern", *words) != "OK":
                raise SystemExit(f"acl setuser {words}")


def narrow(ground):
    with UserDay(ground, "a user who may do less and less, and all again") as day:
        for right in ("xadd", "wait", "set", "get", "xread", "xinfo|stream", "info", "ping"):
            day.allow(f"-{right}")
            time.sleep(1.5)
        day.allow(*day.user)


def mute(ground):
    with UserDay(ground, "a user who may not append to the log") as day:
        day.allow("-xadd")
        untold(day)
        day.allow(*day.user)


def wrong_password(ground):
    with UserDay(ground, "a password that is wrong, and right again") as day:
        day.allow("resetpass", ">other")
        day.primary.forget_clients()
        time.sleep(8)
        day.allow("resetpass", ">right")


class CertifiedDay(Day):
    """By TLS."""

    def certify(self, name, start, end):
        directory = self.ground.directory
        (directory / "index").write_text("")
        (directory / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
        run = lambda *words: subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
        if not (directory / "ca.pem").exists():
            run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem", "-days", "9")
            (directory / "ca.conf").write_text(
                "[ca]\ndefault_ca=c\n[c]\ndatabase=index\nnew_certs_dir=.\ncertificate=ca.pem\nprivate_key=ca.key\nrand_serial=yes\ndefault_md=sha256\n"
                "policy=p\nunique_subject=no\n[p]\ncommonName=supplied\n")
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=engine", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        run("ca", "-batch", "-config", "ca.conf", "-in", f"{name}.csr", "-out", f"{name}.pem", "-startdate", start, "-enddate", end, "-extfile", "extensions")

    def show(self, name):
        directory = self.ground.directory
        self.primary.ask("config", "set", "tls-cert-file", str(directory / f"{name}.pem"), "tls-key-file", str(directory / f"{name}.key"), "tls-auth-clients",
                         "no", "tls-ca-cert-file", str(directory / "ca.pem"))

    def prepare(self):
        self.certify("good", "20200101000000Z", "20491231000000Z")
        self.certify("expired", "20200101000000Z", "20200102000000Z")
        self.show("good")
        self.tls_port = free_port()
        if self.primary.ask("config", "set", "tls-port", str(self.tls_port)) != "OK":
            raise NotImplementedError
        self.settings = (f"tls.ca_file={self.ground.directory / 'ca.pem'}",)

    port = property(lambda self: self.tls_port)

    def node(self, wire, *settings, before=()):
        return super().node(wire, *settings, before=before, scheme="rediss")


def expired(ground):
    name = "a certificate that has expired, and a new one"
    try:
        with CertifiedDay(ground, name) as day:
            day.show("expired")
            day.primary.forget_clients()
            time.sleep(8)
            day.show("good")
    except NotImplementedError:
        ground.end_all()
        print(f"{name}: not tried, this engine has no TLS", flush=True)


def strangers(ground):
    """A second upstream, so that what is another's shows."""
    other = Ground(ground.options)
    try:
        with Day(ground, "another fleet, and one of its name with another secret") as day:
            others = []
            for settings in (("fleet=other",), (f"secret_file={other.secret}",)):
                elsewhere = SimpleNamespace(ground=SimpleNamespace(**{**vars(other), "secret": ground.secret, "children": ground.children}), settings=())
                others.append(Day.node(elsewhere, day.wires[0], *settings))
            for turn in range(60):
                for node in others:
                    for path in [f"/all/{number}" for number in range(20)] + [f"/mine/{number}" for number in range(3)]:
                        user = random.choice(USERS)
                        said = json.loads(node.ask("GET", path, {"Authorization": user} if user else {})[1])
                        if (said["port"], said["user"]) != (other.origin.port, user):
                            day.complain("another's data", f"{path} at a stranger")
                    if turn % 20 == 0:
                        node.purge("/all/0")
                time.sleep(0.05)
    finally:
        other.upstream.terminate()
        shutil.rmtree(other.directory)


TAMPERING = """
local keys = {}
for _, key in ipairs(redis.call('keys', 'cistern:main:*}')) do
  if redis.call('type', key).ok == 'string' then keys[#keys + 1] = key end
end
for place, key in ipairs(keys) do
  local value, what = redis.call('get', key), math.random(4)
  if what == 1 then redis.call('setrange', key, math.random(#value) - 1, string.char(math.random(256) - 1))
  elseif what == 2 then redis.call('set', key, string.sub(value, 1, math.random(#value) - 1), 'keepttl')
  elseif what == 3 then
    local other = keys[math.random(#keys)]
    redis.call('set', key, redis.call('get', other), 'keepttl')
    redis.call('set', other, value, 'keepttl')
  else redis.call('set', key, value .. 'x', 'keepttl') end
end
return #keys
"""


def tampered(ground):
    with Day(ground, "records are changed, cut, and swapped all the time") as day:
        for _ in range(80):
            day.primary.ask("eval", TAMPERING, "0")
            time.sleep(0.1)
        refused = sum(node.metric("cistern_shared_refusals_total") for node in day.nodes)
        if not refused:
            day.complain("nothing was refused", "")


def forged(ground):
    """Whoever has the engine writes what he likes into the log."""
    with Day(ground, "a log with forged entries, and names of it that are none", gaps=True) as day:
        log, epoch = "cistern:main:{log}", "cistern:main:{log}:epoch"
        for entry in ("k a v x", "x y", "k h n 0000000000000001 s 99999999999999999999", "k f v 99999999999999-0"):
            day.primary.ask("xadd", log, "*", *entry.split())
            time.sleep(0.5)
        for words in (("set", epoch, "what-is-this"), ("del", epoch), ("set", log, "x"), ("del", log), ("xadd", log, "18446744073709551615-1", "k", "h"), ("del", log)):
            day.primary.ask(*words)
            time.sleep(2)


def clocks(ground):
    """The engine's own clock jumps too, when it begins anew: one with an allocator of its own cannot be deceived, such as Debian's Redis."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        return print("clocks an hour apart: not tried, faketime is missing")
    # The library changes the environment before a program begins, and one of Swift then finds no arguments: the second env takes that upon itself.
    fake = lambda ahead: ("env", f"LD_PRELOAD={library}", "FAKETIME_DONT_FAKE_MONOTONIC=1", f"FAKETIME={ahead}", "env")
    with Day(ground, "clocks an hour apart, the engine's too", before=((), fake("+1h"), fake("-1h"))) as day:
        for ahead in ("-1h", "+1h"):
            time.sleep(4)
            if "mem_allocator:libc" in day.primary.ask("info", "memory"):
                day.primary.kill()
                day.primary.start(*fake(ahead))
        time.sleep(4)


def rotated(ground):
    """On all nodes with a process that takes over."""
    with Day(ground, "the secret is changed in three steps") as day:
        old, new = ground.secret.read_text(), "%064x\n" % random.getrandbits(256)
        for secret in (old + new, new + old, new):
            ground.secret.write_text(secret)
            for node in day.nodes:
                former = node.process
                node.process = node.start("--take-over")
                ground.children.append(node.process)
                until("the former process stays", 40, lambda: former.poll() is not None)
                if former.returncode:
                    day.complain("errors", f"a process ended with {former.returncode}")
            time.sleep(2)


DAYS = {
    "split": lambda ground: split(ground, "one node is split from the engine", {"to", "from"}),
    "mute": lambda ground: split(ground, "one node is not heard by the engine", {"to"}),
    "deaf": lambda ground: split(ground, "one node does not hear the engine", {"from"}),
    "slow": slow, "half-open": half_open, "gone": gone, "gone-empty": gone_empty, "flushed": flushed, "switched": switched, "evicted": evicted, "full": full, "dumped": dumped,
    "sleeping": sleeping, "narrow": narrow, "no-xadd": mute, "password": wrong_password, "expired": expired, "strangers": strangers, "tampered": tampered, "forged": forged,
    "clocks": clocks, "rotated": rotated}


class Week(Ground):
    def __init__(self, options):
        super().__init__(options)
        self.children, self.is_bad = [], False

    def child(self, words, **more):
        self.children.append(subprocess.Popen(words, **more))
        return self.children[-1]

    def end_all(self):
        for child in self.children:
            child.kill()
            child.wait()
        self.children.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cistern", default=str(HERE.parent.parent / ".build/release/cistern"))
    parser.add_argument("--server", default="redis-server", help="of Redis or Valkey")
    parser.add_argument("--only")
    options = parser.parse_args()
    ground = Week(options)
    try:
        for name, day in DAYS.items():
            if not options.only or name in options.only.split(","):
                day(ground)
    finally:
        ground.end_all()
        ground.upstream.terminate()
    if ground.is_bad:
        print(f"bad; logs in {ground.directory}")
        sys.exit(1)
    shutil.rmtree(ground.directory, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
