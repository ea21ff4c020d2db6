#!/usr/bin/env python3
"""Runs every fault of `rows.py` against the real proxy and prints a table; ends with 1 if anything is red.

    faults.py [--cistern PATH] [--only TEXT] [--jobs N] [--tolerance MS] [--list]
    faults.py [--cistern PATH] --load [--seconds N]
    faults.py [--cistern PATH] --uploads [--seconds N]
    faults.py [--cistern PATH] --purging [--rounds N]
    faults.py [--cistern PATH] --neighbours
    faults.py [--cistern PATH] --abuse [--only TEXT] [--seconds N]

Each fault is played twice, with a stored copy and without one, each time with a proxy, a store and an origin of its own: the answer under
the fault; what the store holds afterwards, seen with the origin down; the first answer when the origin is well again. With --load the
origin is a black hole under 200 requests a second; with --uploads thousands of slow clients stand beside the others; with --purging the proxy
is killed while it purges; with --neighbours one part of the origin fails beside others that are well, and then all of it; with --abuse one client
floods TLS and HTTP/2 while others ask for hits.
"""
import argparse
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rows
from abuse import Abuse
from load import Load
from names import Names
from neighbours import Neighbours
from origin import Certificates
from play import Play, PreflightPlay, TokenPlay
from purging import Purging
from tokens import Tokens
from uploads import Uploads


def cell(outcome):
    if outcome.skipped:
        return outcome.skipped
    return "**red**" if outcome.answer else f"{outcome.milliseconds:.0f} ms"


def mark(outcomes, part):
    return "**red**" if any(getattr(outcome, part) for outcome in outcomes) else "yes"


def line(fault, copy, bare):
    return (f"| {fault.name} | {fault.copy} | {cell(copy)} | {fault.bare} | {cell(bare)} "
            f"| {mark((copy, bare), 'store')} | {mark((copy, bare), 'recovery')} |")


class Run:
    def __init__(self, options):
        self.options = options
        self.faults = [fault for fault in rows.ALL if not options.only or any(part in fault.name for part in options.only.split(","))]
        self.names = Names()

    def play(self, fault):
        kind = {"": Play, "preflight": PreflightPlay, "token": TokenPlay}[fault.asks]
        play = kind(fault, self.options, self.certificates, self.names)
        return fault, play.run(hasCopy=True), play.run(hasCopy=False)

    def run(self):
        began = time.monotonic()
        self.options.directory = tempfile.mkdtemp(prefix="cistern-faults-")
        try:
            self.certificates = Certificates(self.options.directory)
            self.certificates.tokens = Tokens(self.options.directory)
            with ThreadPoolExecutor(self.options.jobs) as pool:
                results = list(pool.map(self.play, self.faults))
            # What was red is played again, alone: the machine may have been busy.
            results = [self.play(result[0]) if result[1].isRed or result[2].isRed else result for result in results]
        finally:
            shutil.rmtree(self.options.directory, ignore_errors=True)
        return self.report(results, time.monotonic() - began)

    def report(self, results, seconds):
        group = None
        for fault, copy, bare in results:
            if fault.group != group:
                group = fault.group
                print(f"\n**{group[0].upper()}{group[1:]}**\n\n| fault | with a copy | took | without | took | nothing bad stored | first answer new |"
                      "\n|---|---|---|---|---|---|---|")
            print(line(fault, copy, bare))
        red = [result for result in results if result[1].isRed or result[2].isRed]
        print()
        for fault, copy, bare in red:
            for title, outcome in (("with a copy", copy), ("without", bare)):
                for part in ("answer", "store", "recovery"):
                    if text := getattr(outcome, part):
                        print(f"RED {fault.name}, {title}, {part}: {text}")
        skipped = sum(bool(copy.skipped) for _, copy, _ in results)
        print(f"{len(results)} faults, {len(red)} red, {skipped} skipped, {seconds:.0f} s")
        return 1 if red else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--only", default="", help="faults whose names contain this, or one of these, between commas")
    parser.add_argument("--jobs", type=int, default=8, help="plays at once")
    parser.add_argument("--tolerance", type=float, default=50, help="milliseconds beyond the deadlines, for a noisy machine")
    parser.add_argument("--list", action="store_true", help="print the names of all faults")
    parser.add_argument("--load", action="store_true", help="the black hole under load instead of the table")
    parser.add_argument("--uploads", action="store_true", help="slow uploads and downloads by the thousand instead of the table")
    parser.add_argument("--purging", action="store_true", help="kill -9 while purging instead of the table")
    parser.add_argument("--neighbours", action="store_true", help="a part that fails beside others that are well, instead of the table")
    parser.add_argument("--abuse", action="store_true", help="one client that abuses TLS and HTTP/2 beside others, instead of the table")
    parser.add_argument("--rounds", type=int, default=30, help="how often --purging kills")
    parser.add_argument("--seconds", type=float, default=20, help="how long --load, --uploads and each --abuse measure")
    options = parser.parse_args()
    options.cistern = str(Path(options.cistern).resolve())
    if options.list:
        print("\n".join(fault.name for fault in rows.ALL))
        return 0
    others = [(options.load, Load), (options.uploads, Uploads), (options.purging, Purging), (options.neighbours, Neighbours), (options.abuse, Abuse)]
    play = next((play for isWanted, play in others if isWanted), Run)
    return play(options).run()


if __name__ == "__main__":
    sys.exit(main())
