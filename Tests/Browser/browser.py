#!/usr/bin/env python3
"""A web app in a real Chromium, on another origin than the API: does it go on through an outage, and can it read what is said to it?

Two pages ask through Cistern with Authorization, so that each request has a preflight: one of an origin that the upstream allows, and one of an origin
that it does not. Then the same where the upstream says nothing of CORS and the operator does (`cors`), and all of it in clear and over TLS, where the browser
chooses HTTP/2. Skipped where no Chromium is installed.
"""

import argparse
import base64
import hashlib
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HOST = "127.0.0.1"
PATIENCE = 60  # seconds

PAGE = """<!doctype html><title>app</title><script>
const api = "API", headers = {Authorization: "Bearer ann"};
async function ask(path, more = {}) {
  try {
    const response = await fetch(api + path, {cache: "no-store", headers: {...headers, ...more}});
    return {status: response.status, text: await response.text(), tag: response.headers.get("x-shown")};
  } catch (error) { return {error: String(error)}; }
}
async function firstPiece(path) {
  try {
    const response = await fetch(api + path, {cache: "no-store", headers});
    const {value} = await response.body.getReader().read();
    const held = await (await fetch("/control/held")).text();
    await fetch("/control/release");
    return {text: new TextDecoder().decode(value), held};
  } catch (error) { await fetch("/control/release"); return {error: String(error)}; }
}
(async () => {
  const said = {before: await ask("/items?page=1"), secret: await ask("/secret"), stream: await firstPiece("/events")};
  said.condition = await ask("/items?page=1", {"If-None-Match": '"1"'});
  await fetch("/control/down");
  said.during = await ask("/items?page=1");
  said.duringCondition = await ask("/items?page=1", {"If-None-Match": '"1"'});
  said.secretDuring = await ask("/secret");
  said.never = await ask("/never");
  const asked = performance.getEntriesByType("resource").filter(entry => entry.name.startsWith(api));
  said.protocols = [...new Set(asked.map(entry => entry.nextHopProtocol))];
  await fetch("/control/up");
  await fetch("/report", {method: "POST", body: JSON.stringify(said)});
})();
</script>"""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        pass  # A browser that leaves is no news.


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, status, content=b"", fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(content)


class Upstream:
    """An API that can be taken away. It allows one origin, or says nothing of CORS."""

    def __init__(self, allowed):
        self.allowed, self.port = allowed, free_port()
        self.held, self.connections = threading.Event(), set()
        self.server = None

    def up(self):
        if self.server:
            return
        upstream = self

        class Handler(Quiet):
            def setup(self):
                super().setup()
                upstream.connections.add(self.connection)

            def grant(self):
                origin = self.headers.get("Origin")
                # Without the second line a page of another origin is not told which protocol was spoken.
                fields = [("Vary", "Origin")] if upstream.allowed else []
                fields += [("Timing-Allow-Origin", "*")]
                if upstream.allowed and origin == upstream.allowed:
                    fields += [("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", "X-Shown")]
                return fields

            def do_OPTIONS(self):
                fields = self.grant()
                is_allowed = len(fields) > 2
                if is_allowed:
                    fields += [("Access-Control-Allow-Headers", "authorization, if-none-match"), ("Access-Control-Max-Age", "-1")]
                self.reply(204 if is_allowed else 403, fields=fields)

            def do_GET(self):
                user = self.headers.get("Authorization", "nobody")
                fields = self.grant() + [("Content-Type", "application/json"), ("X-Shown", "yes")]
                if self.path == "/events":
                    return self.stream(fields)
                if self.path == "/secret":
                    return self.reply(200, json.dumps({"secret of": user}).encode(), fields + [("Cache-Control", "no-store")])
                if self.headers.get("If-None-Match") == '"1"':
                    return self.reply(304, fields=self.grant() + [("ETag", '"1"')])
                self.reply(200, json.dumps({"items of": user}).encode(), fields + [("Cache-Control", "no-cache"), ("ETag", '"1"')])

            def stream(self, fields):
                self.send_response(200)
                for name, value in [f for f in fields if f[0] != "Content-Type"] + [("Content-Type", "text/event-stream")]:
                    self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(b"data: first\n\n")
                upstream.held.wait(PATIENCE)
                self.wfile.write(b"data: last\n\n")
                self.close_connection = True

        self.server = Server((HOST, self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def down(self):
        if not self.server:
            return
        self.server.shutdown()
        self.server.server_close()
        self.server = None
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.connections = set()


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def serve_app(port, proxy, upstream):
    """The app's own server: its page, what the page has done to the upstream, and what it has seen."""
    reported, said = threading.Event(), {}

    class Handler(Quiet):
        def do_GET(self):
            if self.path == "/":
                page = PAGE.replace("API", proxy.url).encode()
                return self.reply(200, page, [("Content-Type", "text/html")])
            if self.path == "/control/down":
                upstream.down()
            elif self.path == "/control/up":
                upstream.up()
            elif self.path == "/control/release":
                upstream.held.set()
            self.reply(200, b"released" if upstream.held.is_set() else b"held", [("Content-Type", "text/plain")])

        def do_POST(self):
            said.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.reply(204)
            reported.set()

    server = Server((HOST, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, reported, said


def visit(chromium, upstream, app_port, proxy):
    """Lets the browser run the page once; returns what the page has seen."""
    upstream.held.clear()
    upstream.up()
    server, reported, said = serve_app(app_port, proxy, upstream)
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={profile}", *proxy.browser_arguments(), f"http://{HOST}:{app_port}/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            done = reported.wait(PATIENCE)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
            server.shutdown()
            server.server_close()
    if not done:
        raise SystemExit("the page has not reported within a minute")
    return said


class Proxy:
    """Over TLS with a certificate of its own making."""

    def __init__(self, cistern, upstream, is_tls, *arguments):
        self.is_tls, self.port, self.directory = is_tls, free_port(), tempfile.TemporaryDirectory()
        scheme = "https://" if is_tls else ""
        self.url = f"{scheme or 'http://'}{HOST}:{self.port}"
        self.process = subprocess.Popen(
            [cistern, "serve", "--upstream", f"http://{HOST}:{upstream.port}", "--listen", f"{scheme}{HOST}:{self.port}",
             "--cache-dir", self.directory.name, "--shards", "1", "--log-level", "error", *(["--tls-self-signed"] if is_tls else []), *arguments],
            stdout=subprocess.DEVNULL)

    def browser_arguments(self):
        """The browser takes this key's certificate, and no other that it does not know."""
        if not self.is_tls:
            return []
        certificate = f"{self.directory.name}/tls-self-signed.pem"
        public = subprocess.run(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"], capture_output=True, check=True).stdout
        key = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=public, capture_output=True, check=True).stdout
        return [f"--ignore-certificate-errors-spki-list={base64.b64encode(hashlib.sha256(key).digest()).decode()}"]

    def __enter__(self):
        context = ssl._create_unverified_context() if self.is_tls else None
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=1, context=context).read()
                return self
            except OSError:
                time.sleep(0.05)
        raise SystemExit("Cistern does not start")

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait(20)
        self.directory.cleanup()


class Results:
    def __init__(self):
        self.failed = 0

    def check(self, sentence, holds, seen):
        print(f"{'ok  ' if holds else 'FAIL'}  {sentence}" + ("" if holds else f": {seen}"))
        self.failed += not holds


def check_allowed(results, name, said, protocol):
    items = '{"items of": "Bearer ann"}'
    for step in ["before", "during"]:
        results.check(f"{name}: the app reads its items {step} the outage", said[step].get("text") == items, said[step])
    for step in ["condition", "duringCondition"]:
        results.check(f"{name}: and a 304 to its own condition ({step})", said[step].get("status") == 304, said[step])
    results.check(f"{name}: what is not stored is read before", "secret of" in said["secret"].get("text", ""), said["secret"])
    text = said["secretDuring"].get("text", "")
    results.check(
        f"{name}: and during the outage the app reads why there is nothing",
        said["secretDuring"].get("status", 0) >= 502 and "upstream" in text.lower(), said["secretDuring"])
    results.check(
        f"{name}: the first event comes while the upstream holds back the next", said["stream"].get("text") == "data: first\n\n"
        and said["stream"].get("held") == "held", said["stream"])
    spoken = set(said["protocols"]) - {""}
    results.check(f"{name}: all of it over {protocol}", spoken == {protocol}, spoken)


def check_all(results, chromium, cistern, is_tls):
    app, stranger = free_port(), free_port()
    door, protocol = ("TLS", "h2") if is_tls else ("clear", "http/1.1")

    upstream = Upstream(f"http://{HOST}:{app}")
    with Proxy(cistern, upstream, is_tls) as proxy:
        said = visit(chromium, upstream, app, proxy)
        check_allowed(results, f"{door}, allowed by the upstream", said, protocol)
        results.check(f"{door}, of what it has never been allowed it reads nothing", "error" in said["never"], said["never"])
        said = visit(chromium, upstream, stranger, proxy)
        results.check(f"{door}, another origin reads nothing, neither before nor during the outage", not read(said), read(said))
    upstream.down()

    silent = Upstream(None)
    with Proxy(cistern, silent, is_tls, "--set", f"cors.origins=http://{HOST}:{app}") as proxy:
        said = visit(chromium, silent, app, proxy)
        check_allowed(results, f"{door}, allowed by the operator", said, protocol)
        results.check(f"{door}, and the app reads why there is nothing also where it never asked before", said["never"].get("status", 0) >= 502, said["never"])
        said = visit(chromium, silent, stranger, proxy)
        results.check(f"{door}, another origin than the operator's reads nothing", not read(said), read(said))
    silent.down()


def read(said):
    """What a page has got to read."""
    return {step: value for step, value in said.items() if step != "protocols" and "error" not in value}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cistern", required=True)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: no Chromium is installed (Debian has it as the package chromium)")
        return 0
    results = Results()
    for is_tls in (False, True):
        check_all(results, chromium, options.cistern, is_tls)
    print("all is well" if results.failed == 0 else f"{results.failed} failed")
    return min(results.failed, 1)


if __name__ == "__main__":
    sys.exit(main())
