"""Content codings: the cost of hits of 10 KB that are stored with gzip, beside other hits of the same Cistern."""
import gzip
import statistics
import subprocess
from pathlib import Path

from servers import Load, fetch

CONTENT = 10_240
CONFIGURATION = """
routes:
  - {{name: plain, path: /plain.{content}/**, compress: off}}
  - {{name: short, path: /short.{short}/**, compress: off}}
"""
FEW, MANY = 100, 20_000


def run(servers, report):
    coded = gzip.compress(fetch(servers.port["origin"], f"/coded.{CONTENT}/0").encode(), 6)
    (Path(servers.directory) / "coded.gz").write_bytes(coded)
    config = servers.configuration("codings.yaml", CONFIGURATION, content=CONTENT, short=len(coded))
    process = servers.start_cistern("codings", config=config)
    prefixes = {"coded": f"/coded.{CONTENT}/", "plain": f"/plain.{CONTENT}/", "as long": f"/short.{len(coded)}/"}

    def compare(contenders):
        """CPU microseconds of hits: contenders are {name: (number of targets, environment of wrk)}."""
        loads = {}
        for name, (count, environment) in contenders.items():
            servers.fill(servers.port["codings"], prefixes[name] + "{}", count)
            environment = {"PREFIX": prefixes[name], "COUNT": str(count), **environment}
            loads[name] = Load(process, servers.port["codings"], script="items.lua", environment=environment)
        return {name: cpu for name, (cpu, _) in servers.compare(loads).items()}

    cpu = compare({"coded": (FEW, {"CODING": "gzip"}), "as long": (FEW, {})})
    report.add("hit, 10 KB, stored and sent with gzip", cpu["coded"], "µs", {"hit of equal length": cpu["as long"]},
               {"hit of equal length": 1.0})
    cpu = compare({"coded": (FEW, {}), "plain": (FEW, {})})
    report.add("hit, 10 KB, decoded before", cpu["coded"], "µs", {"hit without coding": cpu["plain"]}, {"hit without coding": 1.05})
    # So many that no decoded content is in memory when its target is requested again.
    cpu = compare({"coded": (MANY, {"NEXT": "1"}), "plain": (MANY, {"NEXT": "1"})})
    report.add("hit, 10 KB, additional cost of decoding", cpu["coded"] - cpu["plain"], "µs", {"zlib": zlib(servers)}, {"zlib": 1.3})
    servers.stop(process)


def zlib(servers):
    command = ["taskset", "-c", "0", servers.compile("inflate", "-lz"), f"{servers.directory}/coded.gz", "20000"]
    return statistics.median(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(3))
