#!/usr/bin/env python3
"""Measures Cistern, as its package starts it, beside nginx, HAProxy and minimal servers in C.

    bench.py [--cistern PATH] [--only CASE,...] [--write]
    bench.py --growth [AXIS,...] [--write]

Rounds of the servers alternate, so that a change of the machine's speed affects all of them. Figures are medians of the rounds. CPU is
the time of a server's process, divided by the number of requests that the client counted.

Needs nginx, HAProxy, wrk, h2load, OpenSSL, and a C compiler. Everything runs on loopback, in a directory that is removed at the end.
"""
import argparse
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import blocking
import cases
import codings
import first_byte
import growth
import http2
import identities
import memory
import secure
import servers
import shards
import table

TOOLS = ("nginx", "haproxy", "wrk", "h2load", "taskset", "openssl", "cc")
SUITES = {
    "first_byte": first_byte.run, "memory": memory.binary, "idle": memory.idle, "two": shards.run, "http2": http2.run,
    "identities": identities.run, "codings": codings.run,
    "blocking": lambda own, report: blocking.Blocking(own, report).run(blocking.CASES),
    "disk": lambda own, report: blocking.Blocking(own, report).run(["disk"]), "million": memory.million,
}
# Not in a run without --only.
OPTIONAL = {"disk"}
ALL = [*cases.CASES, *secure.CASES, *SUITES]


def measure(own, report, names):
    """Measures all cases, also after one that fails. Returns the names of those that failed."""
    over_tls, failed = None, []
    for number, name in enumerate(names, 1):
        report.progress(f"{name} ({number} of {len(names)})")
        try:
            if name in cases.CASES:
                cases.run(own, report, name)
            elif name in secure.CASES:
                over_tls = over_tls or secure.Secure(own, report)
                getattr(over_tls, name)()
            else:
                SUITES[name](own, report)
        except (SystemExit, Exception) as error:
            report.progress(f"{name} failed: {error!r}")
            failed.append(name)
    return failed


def selected(parser, text, known):
    names = text.split(",")
    unknown = set(names) - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return [name for name in known if name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern", help="the release binary")
    parser.add_argument("--rounds", type=int, help="of each server (default: 4; with --growth: 3)")
    parser.add_argument("--seconds", type=int, default=1, help="of a round")
    parser.add_argument("--only", metavar="CASE,...", help="of " + ", ".join(ALL))
    for name in ("million", "blocking", "codings", "identities", "http2"):
        parser.add_argument(f"--{name}", dest="only", action="store_const", const=name, help=f"as --only {name}")
    parser.add_argument("--growth", nargs="?", const=",".join(growth.AXES), metavar="AXIS,...",
                        help="figures of " + ", ".join(growth.AXES) + ", instead")
    parser.add_argument("--write", action="store_true", help="write the results into README.md, and the figures beside it")
    parser.add_argument("--directory", help="where to work (default: the system's temporary directory)")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write needs all cases, because the table shows one run")
    names = selected(parser, options.only, ALL) if options.only else [name for name in ALL if name not in OPTIONAL]
    axes = selected(parser, options.growth, growth.AXES) if options.growth else []
    options.rounds = options.rounds or (3 if axes else 4)
    options.cistern = str(Path(options.cistern).resolve())
    options.command = ["env", *servers.as_packaged(), options.cistern]
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        sys.exit(f"bench: {', '.join(missing)} missing; run make bench-packages")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    # Clients run on core 1, beside the upstream.
    os.sched_setaffinity(0, {1})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    own, report = servers.Servers(options), table.Report(options)
    try:
        if axes:
            growth.Growth(own, report).run(axes)
        else:
            failed = measure(own, report, names)
            if options.write:
                table.replace("results", report.table())
            if failed:
                sys.exit(f"bench: failed: {', '.join(failed)}")
        report.progress("done")
    finally:
        own.close()


if __name__ == "__main__":
    main()
