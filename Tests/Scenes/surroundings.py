"""Scenes for the rules by which Cistern watches its own process: limits, clocks, restarts."""
import http.client
import os
import struct
import threading
from email.utils import formatdate

from outages import USERS
from play import response
from scene import scene


@scene("connections-near-limit", "Clients hold 19 of 20 connections that limits.connections allows.", fires=["CisternLimitNear"], outputs={
    "gauge": r'^cistern_limit_used_ratio\{limit="limits\.connections"\} (0\.9|1)', "alert": r"^CisternLimitNear: .* of limits\.connections for five minutes"})
def connections_near_limit(play):
    play.start("limits.connections=20")
    is_over = threading.Event()

    def hold(number):
        connection = http.client.HTTPConnection("127.0.0.1", play.port, timeout=20, source_address=(f"127.0.2.{number + 1}", 0))
        while not is_over.is_set():
            try:
                connection.request("GET", "/users/1", headers={"Host": "cistern.test"})
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()
            is_over.wait(play.real(20))
        connection.close()
    threads = [threading.Thread(target=hold, args=(number,), daemon=True) for number in range(19)]
    play.trouble()
    for thread in threads:
        thread.start()
    play.wait(460)
    play.look()
    is_over.set()


@scene("restarts", "Cistern ends and is started again, three times within a quarter of an hour.", fires=["CisternRestarts"], outputs={
    "alert": r"^CisternRestarts: .*service manager"})
def restarts(play):
    play.start()
    play.trouble()
    for _ in range(3):
        play.wait(60)
        play.restart()
    play.wait(60)
    play.look()


@scene("take-over-failed", "A process that is to take over has wrong settings.", fires=["CisternTakeOverFailed"], outputs={
    "gauge": r'^cistern_take_overs_total\{result="failed"\} [1-9]', "alert": r"^CisternTakeOverFailed: .*`cistern check`"})
def take_over_failed(play):
    play.start()
    play.wait(30)
    play.trouble()
    other = os.path.join(play.directory, "another")
    command = [other if word == play.store else word for word in play.command]
    process = play.spawn([*command, "--take-over"])
    play.others.append(process)
    process.wait(20)
    play.wait(60)
    play.look()


@scene("clock-differs", "The upstream's clock is a minute behind.", fires=["CisternClocksDiffer"], outputs={
    "gauge": r"^cistern_upstream_clock_skew_seconds -?[56]\d", "alert": r"^CisternClocksDiffer: .*time server"})
def clock_differs(play):
    play.make_upstream(lambda request: response(cache_control="max-age=0", Date=formatdate(play.now() - 60, usegmt=True)))
    play.start()
    play.trouble()
    play.keep_asking(*USERS, every=4, count=2)
    play.wait(750)
    play.look()


@scene("clock-set", "The machine's clock is set forward by a minute.", fires=["CisternClockSet"], outputs={
    "gauge": r"^cistern_clock_steps_total\S* [1-9]", "alert": r"^CisternClockSet: .*time server", "log": r"(?i)clock"})
def clock_set(play):
    play.start()
    play.keep_asking(*USERS, every=4, count=2)
    play.wait(60)
    play.trouble()
    with open(play.offset, "r+b") as file:
        file.write(struct.pack("q", 60 * 10**9))
    play.wait(90)
    play.look()
