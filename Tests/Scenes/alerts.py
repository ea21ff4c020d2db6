#!/usr/bin/env python3
"""Plays scenes, bad ones and twenty in which all is well, and holds all alerts of docker/prometheus-rules.yml and all outputs of Cistern against them.

    alerts.py [--cistern PATH] [--rules FILE] [--only NAME,NAME] [--quick] [--write] [--speed N] [--at-once N] [--list] [--keep]

Each scene is the real program with a clock that runs `--speed` times as fast (quick_clock.c), a scripted upstream and clients; one real Prometheus scrapes them all, with the
intervals and durations of the rules shortened by the same factor. See README.md. Ends with 1 where an alert that should fire does not, one that should not does, or an output does
not say what it should. `--write` writes outputs.json.
"""
import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

import monitoring
import scene
from catalogue import SCENES
from play import compile_library, free_ports

# Rules that fire in no scene, and why; Tests/Operation/alerts.yaml has their thresholds.
UNPLAYED = {
    "CisternLoopStalls": "no client can hold a loop for so long, and a busy processor is not quick",
    "CisternSettingsDiffer": "it compares all nodes of a job, and all scenes are one job",
}
# Scenes that are wrong are played once more, unless there are more.
MOST_REPEATED = 24
# How many times as fast the clock runs unless --speed says otherwise. The limits of scenes are for this speed.
SPEED = 30
# Real seconds by which the run itself may be late: beyond it scrapes fail, and what is seen says little.
MOST_LATE = 0.25


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=os.path.join(monitoring.ROOT, ".build/release/cistern"))
    parser.add_argument("--rules", default=monitoring.RULES, help="another file with rules")
    parser.add_argument("--only", default="", help="scenes whose names contain one of these, with commas")
    parser.add_argument("--quick", action="store_true", help="the few scenes that continuous integration plays")
    parser.add_argument("--write", action="store_true", help="write outputs.json")
    parser.add_argument("--speed", type=int, default=SPEED, help="how many times as fast the clock runs")
    parser.add_argument("--at-once", type=int, default=min(8, 3 * (os.cpu_count() or 1)), help="scenes played at the same time")
    parser.add_argument("--slack", type=float, default=1.5, help="real seconds that a busy machine may delay an alert")
    parser.add_argument("--list", action="store_true", help="list the scenes and play nothing")
    parser.add_argument("--keep", action="store_true", help="keep the directories of the scenes")
    return parser.parse_args()


def play_one(each, run, instance, connection):
    # The scene's own processes end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    connection.send(scene.perform(each, run, instance))


def limit(each, run):
    """Real seconds after which a scene is given up: more with a slower clock."""
    return each.limit * max(1, SPEED / run.speed)


def play_all(scenes, run, at_once, instances):
    """Each scene in a process of its own; yields results as they come.
    - instances: from a scene's name to the name that it has in Prometheus."""
    # Long ones first.
    waiting = sorted(scenes, key=lambda each: -each.limit)
    running = {}
    try:
        yield from follow(waiting, running, run, at_once, instances)
    finally:
        for process, _, _ in running.values():
            process.terminate()
        for process, _, _ in running.values():
            process.join(10)


def follow(waiting, running, run, at_once, instances):
    """Starts the scenes that wait, and yields the results of those that run."""
    while waiting or running:
        while waiting and len(running) < at_once:
            each = waiting.pop(0)
            here, there = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.Process(target=play_one, args=(each, run, instances(each.name), there))
            process.start()
            there.close()
            running[each.name] = (process, here, time.monotonic() + limit(each, run))
        for name, (process, here, end) in list(running.items()):
            if here.poll(0):
                try:
                    result = here.recv()
                except EOFError:
                    result = scene.Result(name, wrong=["the scene ended without a result"])
            elif time.monotonic() > end:
                process.terminate()
                result = scene.Result(name, wrong=["the scene took too long, and was ended"])
            else:
                continue
            process.join(10)
            del running[name]
            yield result
        time.sleep(0.02)


def table(scenes, results, alerts):
    """A row for each scene, a column for each alert."""
    names = [f"{number:>2} {name}" for number, name in enumerate(alerts, 1)]
    lines = ["", "F fires, as expected   . does not fire, as expected   M missing   U unexpected   - may", "", *names, ""]
    width = max(len(each.name) for each in scenes)
    lines.append(" " * width + "  " + "".join(f"{number:>3}" for number in range(1, len(alerts) + 1)))
    for each in scenes:
        result, cells = results[each.name], ""
        for alert in alerts:
            cells += f"{cell(alert, each, result):>3}"
        verdict = f"skipped: {result.skipped}" if result.skipped else "WRONG" if scene.is_wrong(result) else ""
        lines.append(f"{each.name:<{width}}  {cells}  {verdict}".rstrip())
    return "\n".join(lines)


def cell(alert, each, result):
    def has(names):
        return any(name.split("{")[0].split(" ")[0] == alert for name in names)
    if result.skipped:
        return " "
    if has(result.unexpected) and not has(each.fires):
        return "U"
    if has(result.missing):
        return "M"
    if has(result.fired):
        return "F" if has(each.fires) else "-"
    return "M" if has(each.fires) else "."


def silent_alerts(scenes, results, alerts):
    """Rules that fire in no scene that expects them."""
    heard = {name.split("{")[0] for each in scenes if not results[each.name].skipped for name in each.fires}
    return [name for name in alerts if name not in heard and name not in UNPLAYED]


class Heartbeat(threading.Thread):
    """Measures by how much the run is late, since others use the machine."""

    def __init__(self):
        super().__init__(daemon=True)
        self.late = []
        self.start()

    def run(self):
        while True:
            due = time.monotonic() + 0.1
            time.sleep(0.1)
            self.late.append(time.monotonic() - due)

    @property
    def sentence(self):
        often = sum(each > MOST_LATE for each in self.late)
        return f"This machine was busy: the run was late by more than {MOST_LATE} s {often} times. Try --speed 10 or --at-once 2." if often else ""


def again(name):
    """The name in Prometheus of a scene that is played once more, so that nothing of the first time is taken for it."""
    return f"{name}-again"


def prepare(options, scenes):
    """Starts Prometheus, and returns what all scenes share."""
    # A program that waits for the disk waits in quick seconds: what it writes stays in memory where it can.
    directory = tempfile.mkdtemp(prefix="cistern-alerts-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    clock = compile_library("quick_clock", directory)
    ports = free_ports(2 * len(scenes) + 1, random.randrange(10_000, 28_000))
    targets = dict(zip((name for each in scenes for name in (each.name, again(each.name))), ports[1:]))
    prometheus = monitoring.Prometheus(directory, options.rules, targets, ports[0], options.speed)
    return SimpleNamespace(cistern=os.path.abspath(options.cistern), prometheus=prometheus, clock=clock, directory=directory, ports=targets,
                           speed=options.speed, slack=options.slack, keep=options.keep)


def play_and_repeat(scenes, run, at_once):
    """Plays all scenes, and those that are wrong once more. Returns the results by the scenes' names."""
    results = {}

    def play(some, at_once, instances):
        for result in play_all(some, run, at_once, instances):
            results[result.name] = result
            tell(result)
    play(scenes, at_once, str)
    wrong = [each for each in scenes if scene.is_wrong(results[each.name])]
    if 0 < len(wrong) <= MOST_REPEATED:
        print("Once more, to tell a mistake from a busy machine:", flush=True)
        play(wrong, min(3, at_once), again)
    return results


def main():
    options = arguments()
    scenes = [each for each in SCENES if not options.quick or each.isQuick]
    if options.only:
        scenes = [each for each in scenes if any(word in each.name for word in options.only.split(","))]
    if options.list:
        for each in scenes:
            print(f"{each.name}: {each.tells}")
        return 0
    try:
        # A scrape that is late counts as failed, so other programs wait, where we may have it so.
        os.nice(-10)
    except OSError:
        pass
    run = prepare(options, scenes)
    # Ends what was started, also where this is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began, heartbeat = time.monotonic(), Heartbeat()
    try:
        run.prometheus.wait_ready()
        results = play_and_repeat(scenes, run, options.at_once)
    finally:
        run.prometheus.stop()
    alerts = monitoring.alerts(run.prometheus.rules)
    print(table(scenes, results, alerts))
    wrong = [name for name, result in results.items() if scene.is_wrong(result)]
    silent = [] if options.only or options.quick else silent_alerts(scenes, results, alerts)
    for name in silent:
        print(f"{name} fires in no scene")
    print(f"\n{len(scenes)} scenes in {time.monotonic() - began:.0f} s, {len(wrong)} wrong"
          + (f"; what was seen there is in {run.directory}" if wrong else ""))
    if wrong and heartbeat.sentence:
        print(heartbeat.sentence)
    if options.write:
        scene.write_outputs(SCENES, results)
    for name in scene.outdated(scenes, results):
        print(f"outputs.json has other words of {name}; --write brings it up to date")
    if not wrong and not options.keep:
        shutil.rmtree(run.directory, ignore_errors=True)
    return 1 if wrong or silent else 0


def tell(result):
    fired = ", ".join(f"{name} after {seconds} s" for name, seconds in sorted(result.fired.items()))
    word = "skipped: " + result.skipped if result.skipped else "WRONG" if scene.is_wrong(result) else "ok"
    print(f"{result.name} ({result.seconds:.0f} s): {word}" + (f"; {fired}" if fired else ""), flush=True)
    for sentence in result.missing + result.unexpected + result.wrong:
        print(f"    {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
