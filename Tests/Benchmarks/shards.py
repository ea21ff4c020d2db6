"""Two shards on two cores beside HAProxy with two threads: requests per second, CPU of a request, and latency at 70 % of the slower
server's rate. The clients share the cores with the servers, and use 128 connections."""
import bisect
import itertools
import random
from pathlib import Path

from cases import ITEMS, SHARE, add_latency
from servers import Load

CONNECTIONS = 128
TARGETS = ITEMS[1]
REQUESTS = 200_000


def random_requests(chance):
    return (f"GET /items/{chance.randrange(TARGETS)} HTTP/1.1\r\nHost: bench\r\n\r\n" for _ in itertools.count())


def zipf_requests(chance):
    """As those of zipf.lua."""
    sums = list(itertools.accumulate(1 / rank ** 0.99 for rank in range(1, TARGETS + 1)))
    agents = [text for version in range(1, 6) for text in (
        f"Example/{version}.2 (iPhone; iOS 18.{version}; Scale/3.00)", f"Example-Android/{version}.2 okhttp/4.1{version}.0")]
    languages = ["en-GB,en;q=0.9", "de-DE,de;q=0.9,en;q=0.5", "fr-FR,fr;q=0.9"]
    while True:
        target = bisect.bisect_left(sums, chance.random() * sums[-1])
        yield (f"GET /items/{min(target, TARGETS - 1)} HTTP/1.1\r\nHost: bench\r\nAccept: application/json, */*;q=0.5\r\n"
               f"Accept-Language: {chance.choice(languages)}\r\nUser-Agent: {chance.choice(agents)}\r\n\r\n")


KINDS = {"random": ("two shards, 100,000 targets at random", "items.lua", random_requests),
         "zipf": ("two shards, 100,000 targets, Zipf", "zipf.lua", zipf_requests)}


def run(servers, report):
    servers.start_cistern("cistern two", cores="0,1", shards=2)
    servers.start_haproxy("haproxy two", cores="0,1", threads=2)
    processes = {"cistern": servers.running[-2], "haproxy": servers.running[-1]}
    contenders = {name: (process, servers.port[f"{name} two"]) for name, process in processes.items()}
    for _, port in contenders.values():
        servers.fill(port, *ITEMS)
    for kind in KINDS:
        compare(servers, report, kind, contenders)
    for process in processes.values():
        servers.stop(process)


def compare(servers, report, kind, contenders):
    title, script, make = KINDS[kind]
    environment = {"PREFIX": "/items/", "COUNT": str(TARGETS)}
    figures = servers.compare({name: Load(*server, script=script, environment=environment, connections=CONNECTIONS, cores="0,1", threads=2)
                               for name, server in contenders.items()})
    (cpu, rate), (other_cpu, other_rate) = figures["cistern"], figures["haproxy"]
    report.add(f"{title}: requests per second", rate, "", {"haproxy": other_rate}, {"haproxy": 1.5}, is_least=True)
    report.add(title, cpu, "µs", {"haproxy": other_cpu}, {"haproxy": 0.65})
    file = Path(servers.directory) / f"{kind}.requests"
    file.write_text("".join(text + "\0" for text in itertools.islice(make(random.Random(1)), REQUESTS)))
    add_latency(servers, report, title, contenders, file, SHARE * min(rate, other_rate), CONNECTIONS, "0,1")
