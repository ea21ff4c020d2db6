#!/usr/bin/env python3
"""The page of the state in a real Chromium: three APIs under load, an outage of one of them, and pictures of the page, light, dark and narrow.

Pictures go to --pictures. Fails where the page says something that is not so, where the browser's console has anything to say, or where anything was
asked of another host. Skipped where no Chromium is installed.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(__file__))
from browser import HOST, Quiet, Server, free_port  # noqa: E402

HOSTILE = ["/catalogue/%3Cscript%3Ealert(1)%3C/script%3E", "/catalogue/%E2%80%AE%E2%81%A6gnp.exe", "/catalogue/" + "x" * 7_000, "/catalogue/it's\"quoted\""]
APIS = ["users", "orders", "catalogue"]
SETTINGS = """listen: [HOST:{port}]
admin_listen: [HOST:{admin}]
store:
  directory: {directory}/cache
apis:
  - name: users
    path: /users/
    upstream: ["http://HOST:{0}"]
    routes:
      - name: search
        path: /users/search/**
  - name: orders
    path: /orders/
    upstream: ["http://HOST:{1}"]
    routes:
      - name: reports
        path: /orders/reports/**
  - name: catalogue
    upstream: ["http://HOST:{2}"]
"""


class Upstream:
    """One API; some of its responses may not be kept."""

    def __init__(self):
        self.port = free_port()

    def up(self):
        connections = self.connections = set()

        class Handler(Quiet):
            def setup(self):
                super().setup()
                connections.add(self.connection)

            def do_GET(self):
                time.sleep(random.random() * 0.02)
                kept = {"search": ("Cache-Control", "private"), "reports": ("Content-Type", "text/csv"), "now": ("Cache-Control", "no-store")}
                field = next((value for name, value in kept.items() if f"/{name}/" in self.path), ("Cache-Control", "max-age=10"))
                content = json.dumps({"items": list(range(random.randint(1, 400)))}).encode()
                fields = [("Cache-Tag", "items"), ("Content-Type", "application/json")]
                self.reply(200, content, [one for one in fields if one[0] != field[0]] + [field])

        self.server = Server((HOST, self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def down(self):
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Load:
    """Users who ask on and on, until it ends."""

    def __init__(self, port):
        self.port, self.ended = port, False
        self.users = [threading.Thread(target=self.ask, daemon=True) for _ in range(3)]
        for user in self.users:
            user.start()

    def target(self):
        kind = random.random()
        if kind < 0.02:
            return random.choice(HOSTILE)
        path = random.choice(["/users/", "/orders/", "/catalogue/"])
        if kind < 0.08:
            return "/users/search/" + str(random.randint(1, 9)) + "?q=a&token=s3cr3t"
        if kind < 0.12:
            return "/orders/reports/" + str(random.randint(1, 9))
        if kind < 0.15:
            return "/catalogue/now/" + str(random.randint(1, 9))
        return path + str(int(random.paretovariate(0.7)))[:4]

    def ask(self):
        while not self.ended:
            try:
                with urllib.request.urlopen(f"http://{HOST}:{self.port}{self.target()}", timeout=10) as response:
                    response.read()
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(random.random() * 0.04)


class Chromium:
    def __init__(self, path, pictures):
        self.path, self.pictures = path, pathlib.Path(pictures)
        self.pictures.mkdir(parents=True, exist_ok=True)

    def run(self, url, *arguments):
        with tempfile.TemporaryDirectory() as profile:
            command = [self.path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                       "--disable-background-networking", "--enable-logging=stderr", f"--user-data-dir={profile}", *arguments, url]
            return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def picture(self, url, name, size=(1280, 1500), dark=False, more=()):
        said = self.run(
            url, f"--screenshot={self.pictures / name}.png", f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=3000",
            *(["--blink-settings=preferredColorScheme=0", "--force-dark-mode"] if dark else ["--blink-settings=preferredColorScheme=1"]), *more)
        return [line for line in said.stderr.splitlines() if ":CONSOLE" in line]

    def document(self, url, *more):
        return self.run(url, "--dump-dom", "--virtual-time-budget=5000", *more).stdout


def page(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def require(condition, words):
    if not condition:
        sys.exit(f"not so: {words}")
    print("ok:", words)


def play(binary, chromium, seconds):
    upstreams = [Upstream() for _ in APIS]
    for upstream in upstreams:
        upstream.up()
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory:
        settings = pathlib.Path(directory, "cistern.yaml")
        text = SETTINGS.replace("HOST", HOST).format(*[upstream.port for upstream in upstreams], port=port, admin=admin, directory=directory)
        settings.write_text(text)
        service = subprocess.Popen([binary, "serve", "--config", str(settings)], stderr=subprocess.DEVNULL)
        url = f"http://{HOST}:{admin}/-/status"
        try:
            for _ in range(100):
                try:
                    page(url)
                    break
                except OSError:
                    time.sleep(0.1)
            else:
                sys.exit("Cistern does not start")
            load = Load(port)
            time.sleep(seconds)
            complaints = chromium.picture(url, "well-light") + chromium.picture(url, "well-dark", dark=True)
            require("All 3 upstreams respond." in page(url), "while all is well the page says so")
            upstreams[1].down()
            time.sleep(seconds)
            for name, size, dark in [("outage-light", (1280, 1500), False), ("outage-dark", (1280, 1500), True), ("outage-narrow", (500, 3600), False)]:
                complaints += chromium.picture(url, name, size, dark)
            shown = page(url)
            require("orders has been down for" in shown and "(connection refused)" in shown, "in the outage it says what is down, since when, and why")
            require("requests rescued, oldest copy" in shown, "it says who is rescued, by copies of what age")
            require("Setting cache.content_types" in shown and "Setting cache.role" in shown, "it says what is not stored, and which setting changes it")
            for secret in ["s3cr3t", "/users/", "xxxx", "alert(1)", HOST]:
                require(secret not in shown, f"{secret} is not shown to those without a session")
            live = chromium.document(url)
            require('id="live">live<' in live, "with JavaScript it goes on by itself")
            load.ended = True
            require(not complaints, f"the browser has nothing to say {complaints}")
        finally:
            service.terminate()
            service.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--pictures", default=".build/pictures")
    parser.add_argument("--time", type=float, default=30, help="seconds of load before the outage, and in it")
    arguments = parser.parse_args()
    path = shutil.which("chromium")
    if not path:
        print("skipped: no Chromium is installed (Debian's package chromium)")
        return
    play(arguments.cistern, Chromium(path, arguments.pictures), arguments.time)
    print("pictures are in", arguments.pictures)


if __name__ == "__main__":
    main()
