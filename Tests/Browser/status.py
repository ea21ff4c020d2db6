#!/usr/bin/env python3
"""The status page in a real Chromium: three APIs under load, an outage of one of them, and pictures of the page, light, dark and narrow.

Then the page with the last exchanges, by the password, and a page of another origin, which may frame nothing, read nothing and send nothing. Pictures go to --pictures.
Fails where the page says something that is not so, where a screen reader finds something without a name, where the browser's console has anything to
say, or where anything was asked of another host. Skipped where no Chromium is installed.
"""

import argparse
import base64
import json
import os
import pathlib
import random
import shutil
import signal
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
TOKEN = "0123456789abcdef"
SETTINGS = """listen: [HOST:{port}]
admin_listen: [HOST:{admin}]
admin:
  token_file: {directory}/token
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
    """One browser, driven over its pipe (the DevTools protocol: JSON, each message ends with a zero byte)."""

    def __init__(self, path, pictures):
        self.pictures = pathlib.Path(pictures)
        self.pictures.mkdir(parents=True, exist_ok=True)
        self.profile = tempfile.TemporaryDirectory()
        (theirs_in, self.out), (self.back, theirs_out) = os.pipe(), os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        script = f"exec 3<&{theirs_in} 4>&{theirs_out}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.number, self.complaints, self.requests = b"", 0, [], []
        target = next(one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"]:
            self.ask(domain + ".enable")

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def message(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.back, 1 << 20)
            if not piece:
                sys.exit("the browser is gone")
            self.buffer += piece
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def ask(self, method, **parameters):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if not method.startswith("Target."):
            asked["sessionId"] = self.session
        os.write(self.out, json.dumps(asked).encode() + b"\0")
        return self.wait(lambda message: message.get("id") == self.number).get("result", {})

    def wait(self, fits):
        while True:
            message = self.message()
            if message.get("method") == "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])
            if message.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(message["params"]["exceptionDetails"]["text"])
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if fits(message):
                return message

    def go(self, url):
        self.ask("Page.navigate", url=url)
        self.wait(lambda message: message.get("method") == "Page.loadEventFired")

    def evaluate(self, script):
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)["result"].get("value")

    def until(self, script):
        for _ in range(100):
            if self.evaluate(script):
                return True
            time.sleep(0.1)
        return False

    def look(self, width=1280, dark=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, name, width=1280, dark=False):
        self.look(width, dark)
        overflow = self.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        require(overflow <= 0, f"{name} is not wider than its window")
        taken = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        (self.pictures / (name + ".png")).write_bytes(base64.b64decode(taken))

    def names(self):
        """Of all that a screen reader tells, with its role."""
        tree = self.ask("Accessibility.getFullAXTree")["nodes"]
        told = [node for node in tree if not node.get("ignored")]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in told]


def page(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def require(condition, words):
    if not condition:
        sys.exit(f"not so: {words}")
    print("ok:", words)


def check_access(chromium):
    names = chromium.names()
    roles = {role for role, _ in names}
    for role in ["main", "banner", "contentinfo", "heading", "table", "caption", "columnheader", "rowheader", "status", "image"]:
        require(role in roles or (role == "caption" and "Caption" in roles), f"a screen reader finds a {role}")
    unnamed = [role for role, name in names if role in ["button", "link", "textbox", "checkbox", "image", "table", "heading"] and not name]
    require(not unnamed, f"everything that needs a name has one {unnamed}")


def play_exchanges(url, token, chromium):
    """The page with the last exchanges, with the password that a browser asks for."""
    chromium.look()
    # A browser that does not know AbortSignal.timeout.
    script = chromium.ask("Page.addScriptToEvaluateOnNewDocument", source="delete AbortSignal.timeout")["identifier"]
    before = len(chromium.complaints)
    chromium.go(url + "/exchanges")
    require(not chromium.evaluate("!!document.getElementById('last')"), "nobody sees the exchanges without the password")
    # The browser names what was refused.
    require(all("401" in one for one in chromium.complaints[before:]), "nothing else is wrong")
    del chromium.complaints[before:]
    chromium.go(url.replace("://", f"://admin:{token}@") + "/exchanges")
    require(chromium.until("!!document.getElementById('last')"), "the token as the password opens the page with the exchanges")
    chromium.go(url + "/exchanges")
    require(chromium.until("document.getElementById('live').textContent == 'live'"), "the page goes on in browsers of some years ago, with the password")
    chromium.ask("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    require(not chromium.evaluate("document.cookie || document.forms.length"), "it has neither cookies nor forms")
    # One request of seventeen has a secret, so the page may have to be written several times.
    require(chromium.until("document.documentElement.outerHTML.includes('REDACTED')"), "targets are shown")
    shown = chromium.evaluate("document.documentElement.outerHTML")
    require("s3cr3t" not in shown, "secrets in targets are masked")
    require(not any(sign in shown for sign in ["\u202e", "x" * 500]) and chromium.evaluate("document.scripts.length") == 1, "hostile targets stay text")
    require(chromium.evaluate("[...document.querySelectorAll('nav a')].every(one => document.getElementById(one.hash.slice(1)))"), "the menu leads to parts that are there")
    chromium.evaluate("document.querySelector('#last details').open = true")
    chromium.picture("exchanges-light")
    chromium.picture("exchanges-dark", dark=True)
    chromium.picture("exchanges-narrow", 390)
    check_access(chromium)
    chromium.look()


def play_frame(url, chromium):
    """A page of another origin frames this one, reads it, and sends a form, with the password that the browser has."""
    class Handler(Quiet):
        def do_GET(self):
            form = f"<form method=post action='{url.replace('status', 'purge')}?prefix=/'></form>"
            self.reply(200, f"<iframe src='{url}'></iframe>{form}".encode(), [("Content-Type", "text/html")])

    server = Server((HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    before = len(chromium.complaints)
    chromium.go(f"http://{HOST}:{server.server_address[1]}/")
    require(any("frame" in text.lower() for text in chromium.complaints[before:]), "no page frames it")
    for path in ["", "/exchanges"]:
        read = f"fetch('{url}{path}', {{credentials: 'include'}}).then(response => response.text(), () => 'refused')"
        require(chromium.evaluate(read) == "refused", f"no script of another origin reads /-/status{path}")
    # Later, because the browser answers nothing while it leaves the page.
    chromium.evaluate("setTimeout(() => document.forms[0].submit(), 100), 1")
    chromium.wait(lambda message: message.get("method") == "Page.loadEventFired")
    refused = chromium.until("document.body.innerText.includes('The bearer token of the admin interface is missing')")
    require(refused, f"another page's form is refused: {chromium.evaluate('document.body.innerText')[:80]!r}")
    del chromium.complaints[before:]
    server.shutdown()
    server.server_close()


def play(binary, chromium, seconds):
    upstreams = [Upstream() for _ in APIS]
    for upstream in upstreams:
        upstream.up()
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory:
        settings = pathlib.Path(directory, "cistern.yaml")
        text = SETTINGS.replace("HOST", HOST).format(*[upstream.port for upstream in upstreams], port=port, admin=admin, directory=directory)
        settings.write_text(text)
        pathlib.Path(directory, "token").write_text(TOKEN)
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
            chromium.look()
            chromium.go(url)
            chromium.picture("well-light")
            require("All 3 upstreams are up." in page(url), "while all is well the page says so")
            upstreams[1].down()
            time.sleep(seconds)
            require(chromium.until("document.body.innerText.includes('orders has been down')"), "the open page says it by itself")
            require(chromium.evaluate("document.getElementById('live').textContent") == "live", "the open page is still updated")
            announced = chromium.evaluate("document.getElementById('announcement').textContent")
            require("orders: Down" in announced, f"a screen reader announces the change of state: {announced}")
            chromium.picture("outage-light")
            chromium.picture("outage-dark", dark=True)
            chromium.picture("outage-narrow", 390)
            check_access(chromium)
            shown = page(url)
            require("orders has been down for" in shown and "(connection refused)" in shown, "in the outage it says what is down, since when, and why")
            require("requests rescued, oldest copy" in shown, "it says who is rescued, by copies of what age")
            require("Setting cache.content_types" in shown and "Setting cache.role" in shown, "it says what is not stored, and which setting changes it")
            for secret in ["s3cr3t", "x" * 500, "alert(1)</script>"]:
                require(secret not in shown, f"{secret} is not shown to those without the token")
            require("/users/" in shown and "?q=" not in shown, "paths are shown, without arguments")
            play_exchanges(url, TOKEN, chromium)
            play_frame(url, chromium)
            load.ended = True
            require(not chromium.complaints, f"the browser has nothing to say {chromium.complaints}")
            foreign = [one for one in chromium.requests if not one.startswith((f"http://{HOST}:", f"http://admin:{TOKEN}@{HOST}:", "about:", "data:", "chrome-error:"))]
            require(not foreign, f"nothing is asked of others {foreign}")
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
    chromium = Chromium(path, arguments.pictures)
    try:
        play(arguments.cistern, chromium, arguments.time)
    finally:
        chromium.close()
    print("pictures are in", arguments.pictures)


if __name__ == "__main__":
    main()
