"""CPU of a request beside other servers, with wrk and 64 connections; then latency at a rate that does not depend on the responses."""
import re
import subprocess
from dataclasses import dataclass

from servers import TARGETS, Load

# Of the slower server's highest rate.
SHARE = 0.7


@dataclass
class Case:
    """Requests to a Cistern, and limits of its CPU as {server: ratio}; None for no limit.

    - stored: (path, count) of targets that are stored before
    - is_written: also measures bytes written to disk
    - latency: (method and path, count) of the open loop's requests
    """
    title: str
    limits: dict
    path: str = "/"
    script: str = None
    environment: dict = None
    cistern: str = "cistern"
    stored: tuple = None
    is_written: bool = False
    latency: tuple = None


def each(kind, title, limits, **others):
    """Requests of 10,000 targets in turn. No target is requested twice at once, so that no requests are collapsed."""
    environment = {"PREFIX": f"/{kind}/", "COUNT": str(TARGETS), "NEXT": "1"}
    return Case(title, limits, script="items.lua", environment=environment, stored=(f"/{kind}/{{}}", TARGETS), **others)


ITEMS = ("/items/{}", 100_000)
SAME, TAGGED, NEW = "same data, no validators", "ETag, confirmed by 304", "other data each time, stored"
CASES = {
    "hit": Case("hit, 1 KB", {"nginx": 0.50, "haproxy": 0.70, "floor": 1.20}, "/hit", latency=("/hit", 1)),
    "random": Case("hits, 100,000 targets at random", {"nginx": 0.50, "haproxy": 0.70}, script="items.lua",
                   environment={"PREFIX": "/items/", "COUNT": "100000"}, stored=ITEMS),
    "zipf": Case("hits, 100,000 targets, Zipf", {"haproxy": 0.70}, script="zipf.lua", stored=ITEMS),
    "mixed": Case("hits, Zipf, with 10 % new targets", {"haproxy": 0.85}, script="zipf.lua", environment={"NEW": "10"}, stored=ITEMS),
    "large": Case("hit, 100 KB", {"nginx": 0.85}, "/items.102400/1"),
    "fill": Case("new targets, stored", {"haproxy": 1.20}, script="sequence.lua", environment={"PREFIX": "/items/"}),
    "pass": Case("pass, no-store", {"nginx pass": 1.00, "floor pass": None}, "/pass"),
    "same": each("same", SAME, {"nginx pass": 1.20, "haproxy": None}, is_written=True, latency=("/same/{}", TARGETS)),
    "tagged": each("tagged", TAGGED, {"nginx pass": 1.15}, is_written=True),
    "new": each("new", NEW, {"nginx pass": 1.50}),
}
for suffix, protocol in (("tls", "HTTP/1.1 over TLS"), ("h2u", "HTTP/2 over TLS")):
    others = {"cistern": f"cistern {suffix}"}
    CASES |= {
        f"pass_{suffix}": Case(f"pass, no-store, upstream: {protocol}", {"nginx pass tls": 1.25}, "/pass", **others),
        f"same_{suffix}": each("same", f"{SAME}, upstream: {protocol}", {"nginx pass tls": 1.20}, **others),
        f"tagged_{suffix}": each("tagged", f"{TAGGED}, upstream: {protocol}", {"nginx pass tls": 1.15}, **others),
        f"new_{suffix}": each("new", f"{NEW}, upstream: {protocol}", {"nginx pass tls": 1.50}, **others),
    }
CASES["rescue"] = each("same", "rescue, upstream down", {"nginx stale": 0.25}, cistern="cistern down", latency=("/same/{}", TARGETS))
# Bytes written to disk for each request, and seconds of requests. A confirmation need not be written at once.
WRITTEN_LIMIT, WRITTEN_SECONDS = 8, 15


def run(servers, report, name):
    case = CASES[name]
    contenders = {other: servers.server(other) for other in (case.cistern, *case.limits)}
    if case.stored:
        for other, (_, port) in contenders.items():
            # Others than Cistern store only what has a lifetime.
            if other == case.cistern or case.stored == ITEMS:
                servers.fill(port, *case.stored)
    loads = {other: Load(*server, case.path, case.script, case.environment) for other, server in contenders.items()}
    figures = servers.compare(loads)
    others = {other: figures[other][0] for other in case.limits}
    limits = {other: limit for other, limit in case.limits.items() if limit}
    report.add(case.title, figures[case.cistern][0], "µs", others, limits)
    if case.is_written:
        report.add(f"{case.title}: written to disk for each request", written(servers, loads[case.cistern]), "B",
                   limits={None: WRITTEN_LIMIT})
    if case.latency:
        peers = {other: server for other, server in contenders.items() if not other.startswith("floor")}
        rate = SHARE * min(figures[other][1] for other in peers)
        add_latency(servers, report, case.title, peers, servers.requests(*case.latency), rate)


def written(servers, load):
    servers.settle(load.port)
    before = load.process.written()
    count, _ = servers.wrk(load, seconds=WRITTEN_SECONDS)
    servers.settle(load.port)
    return (load.process.written() - before) / count


# Open loop

def open_loop(server, servers, file, rate, connections=64, cores="1", seconds=None):
    """Median and 99th percentile of the latency in milliseconds, and CPU microseconds of a request.

    Requests that are not done at the end count as ten seconds.
    """
    process, port = server
    command = ["taskset", "-c", cores, servers.compile("openloop"), str(port), str(connections), f"{rate:.0f}",
               str(seconds or servers.options.seconds), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        before = process.cpu()
        out = child.stdout.readline()
        cpu = process.cpu() - before
        _, errors = child.communicate()
    found = re.search(r"(\d+) due (\d+) done p50 (\d+) p99 (\d+)", out)
    if not found:
        raise SystemExit(f"openloop: {errors.strip() or out.strip()}")
    due, done, median, p99 = map(int, found.groups())
    return (median / 1000, p99 / 1000, cpu / done * 1e6) if done == due else (10_000.0, 10_000.0, cpu / done * 1e6)


def add_latency(servers, report, title, contenders, file, rate, connections=64, cores="1"):
    own, *others = contenders
    figures = servers.alternate(
        contenders, lambda server: open_loop(server, servers, file, rate, connections, cores), warm_up=True)
    for place, name in enumerate(("p50", "p99")):
        report.add(f"{title}: {name} at {rate:,.0f} requests/s", figures[own][place], "ms",
                   {other: figures[other][place] for other in others}, {other: 1.0 for other in others})
