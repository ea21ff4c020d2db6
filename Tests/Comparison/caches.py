#!/usr/bin/env python3
"""Holds Cistern and other caches against RFC 9111 from outside, side by side, and prints who keeps which rule.

    caches.py [--cistern PATH] [--only NAME,...]

Each row is an origin's answers and a client's requests; each cache that is installed (nginx, Varnish, Squid, Traffic Server) is started
as its documentation says, and asked the same. Ends with 1 where Cistern breaks a row. All of it on loopback, in a directory of its own.
"""
import argparse
import http.client
import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ASK, HIT = "ask", "hit"


@dataclass
class Step:
    """One request and what must come of it: HIT, ASK, a status, or fields (None: absent) of the answer."""
    expect: object
    method: str = "GET"
    headers: dict = field(default_factory=dict)
    wait: float = 0
    target: str = ""
    fields: dict = field(default_factory=dict)


@dataclass
class Row:
    section: str
    name: str
    answers: list
    steps: list
    down: bool = False


def fresh(*more):
    return (200, ["Cache-Control: max-age=60", *more])


FIRST = Step(ASK)
ROWS = [
    Row("4.2.1", "max-age is fresh", [fresh()], [FIRST, Step(HIT)]),
    Row("4.2.1", "s-maxage comes before max-age", [(200, ["Cache-Control: max-age=0, s-maxage=60"])], [FIRST, Step(HIT)]),
    Row("4.2.1", "s-maxage=0 comes before max-age", [(200, ["Cache-Control: max-age=60, s-maxage=0"])], [FIRST, Step(ASK)]),
    Row("4.2.1", "an argument in quotes", [(200, ['Cache-Control: max-age="60"'])], [FIRST, Step(HIT)]),
    Row("4.2.1", "the most restrictive of two", [(200, ["Cache-Control: max-age=60", "Cache-Control: max-age=0"])], [FIRST, Step(ASK)]),
    Row("4.2.1", "what cannot be read is stale", [(200, ["Cache-Control: max-age=soon"])], [FIRST, Step(ASK)]),
    Row("5.3", "Expires: 0 is past", [(200, ["Expires: 0"])], [FIRST, Step(ASK)]),
    Row("5.3", "Expires less Date", [(200, ["Expires: Fri, 31 Dec 2100 00:00:00 GMT"])], [FIRST, Step(HIT)]),
    Row("4.2.3", "Age counts", [fresh("Age: 100")], [FIRST, Step(ASK)]),
    Row("4.2.3", "an old Date counts", [fresh("Date: Sun, 06 Nov 1994 08:49:37 GMT")], [FIRST, Step(ASK)]),
    Row("5.1", "an Age that is no number says nothing", [fresh("Age: 1.5")], [FIRST, Step(HIT)]),
    Row("4", "Age on what is served", [fresh()], [FIRST, Step(HIT, wait=1.2, fields={"Age": True})]),
    Row("3", "Date is left alone", [fresh("Date: Fri, 31 Dec 2100 00:00:00 GMT")],
        [FIRST, Step(HIT, fields={"Date": "Fri, 31 Dec 2100 00:00:00 GMT"})]),
    Row("5.2.2.5", "no-store", [(200, ["Cache-Control: no-store, max-age=60"])], [FIRST, Step(ASK)]),
    Row("5.2.2.7", "private", [(200, ["Cache-Control: private, max-age=60"])], [FIRST, Step(ASK)]),
    Row("5.2.2.4", "no-cache", [(200, ["Cache-Control: no-cache, max-age=60"])], [FIRST, Step(ASK)]),
    Row("5.2", "directives in capitals", [(200, ["Cache-Control: NO-STORE, max-age=60"])], [FIRST, Step(ASK)]),
    Row("5.2.1.4", "the client's no-cache", [fresh()], [FIRST, Step(ASK, headers={"Cache-Control": "no-cache"})]),
    Row("5.2.1.1", "the client's max-age=0", [fresh()], [FIRST, Step(ASK, headers={"Cache-Control": "max-age=0"}, wait=1.2)]),
    Row("5.2.1.3", "the client's min-fresh", [fresh()], [FIRST, Step(ASK, headers={"Cache-Control": "min-fresh=90"})]),
    Row("5.2.1.5", "the client's no-store is not kept", [fresh()], [Step(ASK, headers={"Cache-Control": "no-store"}), Step(ASK)]),
    Row("5.2.1.7", "only-if-cached without a copy", [fresh()], [Step(504, headers={"Cache-Control": "only-if-cached"})]),
    Row("5.4", "the client's Pragma", [fresh()], [FIRST, Step(ASK, headers={"Pragma": "no-cache"})]),
    Row("4.1", "Vary: the same", [fresh("Vary: X-A")], [Step(ASK, headers={"X-A": "1"}), Step(HIT, headers={"X-A": "1"})]),
    Row("4.1", "Vary: another", [fresh("Vary: X-A")], [Step(ASK, headers={"X-A": "1"}), Step(ASK, headers={"X-A": "2"})]),
    Row("4.1", "Vary: both are kept", [fresh("Vary: X-A")],
        [Step(ASK, headers={"X-A": "1"}), Step(ASK, headers={"X-A": "2"}), Step(HIT, headers={"X-A": "1"})]),
    Row("4.1", "Vary: *", [fresh("Vary: *")], [FIRST, Step(ASK)]),
    Row("4.1", "Vary: a star in a list", [fresh("Vary: X-A, *")], [FIRST, Step(ASK)]),
    Row("3.5", "Authorization is not for others", [fresh()],
        [Step(ASK, headers={"Authorization": "Basic YTph"}), Step(ASK, headers={"Authorization": "Basic Yjpi"})]),
    Row("3", "a status nobody knows, with max-age", [(299, ["Cache-Control: max-age=60"])], [FIRST, Step(HIT)]),
    Row("3", "404 with max-age", [(404, ["Cache-Control: max-age=60"])], [FIRST, Step(HIT)]),
    Row("3.1", "fields that Connection names stop", [fresh("Connection: X-Hop", "X-Hop: 1")],
        [FIRST, Step(HIT, fields={"X-Hop": None})]),
    Row("4.3.2", "If-None-Match from the store", [fresh('ETag: "x"')], [FIRST, Step(304, headers={"If-None-Match": '"y", W/"x"'})]),
    Row("4.3.2", "If-Modified-Since from the store", [fresh("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT")],
        [FIRST, Step(304, headers={"If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"})]),
    Row("4.3.2", "a part from the stored whole", [fresh()], [FIRST, Step(206, headers={"Range": "bytes=0-1"})]),
    Row("4.3.4", "a 304 updates fields",
        [(200, ["Cache-Control: max-age=1", 'ETag: "x"', "X: old"]), (304, ["Cache-Control: max-age=60", 'ETag: "x"', "X: new"])],
        [FIRST, Step(ASK, wait=2.1), Step(HIT, fields={"X": "new"})]),
    Row("4", "HEAD from GET's answer", [fresh()], [FIRST, Step(HIT, method="HEAD")]),
    Row("4.4", "POST makes invalid", [fresh()], [FIRST, Step(ASK, method="POST"), Step(ASK)]),
    Row("4.4", "an unknown method makes invalid", [fresh()], [FIRST, Step(ASK, method="FROB"), Step(ASK)]),
    Row("4.4", "a failed POST does not", [fresh(), (500, []), fresh()], [FIRST, Step(ASK, method="POST"), Step(HIT)]),
    Row("4.4", "Content-Location of a write", [fresh(), (200, ["Content-Location: {base}/b"]), fresh()],
        [Step(ASK, target="/b"), Step(HIT, target="/b"), Step(ASK, method="PUT", target="/a"), Step(ASK, target="/b")]),
    Row("4.2.4", "must-revalidate while the origin is down", [(200, ["Cache-Control: max-age=1, must-revalidate"])],
        [FIRST, Step("5xx", wait=2.1)], down=True),
    Row("4.2.4", "stale while the origin is down, with leave", [(200, ["Cache-Control: max-age=1, stale-if-error=60"])],
        [FIRST, Step(200, wait=2.1)], down=True),
    Row("5861 3", "stale-while-revalidate", [(200, ["Cache-Control: max-age=1, stale-while-revalidate=60"])],
        [FIRST, Step(200, wait=2.1, fields={"X-Count": "1"})]),
    Row("9213", "CDN-Cache-Control hides Cache-Control", [(200, ["Cache-Control: no-store", "CDN-Cache-Control: max-age=60"])],
        [FIRST, Step(HIT)]),
    Row("9875", "Cache-Groups", [fresh('Cache-Groups: "g"'), (200, ['Cache-Group-Invalidation: "g"']), fresh()],
        [Step(ASK, target="/a"), Step(ASK, method="POST", target="/other"), Step(ASK, target="/a")]),
]


class Origin(http.server.ThreadingHTTPServer):
    """One port for each row, so that a row can take its origin down."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, row):
        self.row, self.count, self.lock, self.is_down = row, 0, threading.Lock(), False
        super().__init__(("127.0.0.1", 0), OriginHandler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()


class OriginHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20

    def handle_one_request(self):
        super().handle_one_request()

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        server = self.server
        if server.is_down:
            self.close_connection = True
            return
        with server.lock:
            server.count += 1
            number = server.count
        status, lines = server.row.answers[min(number, len(server.row.answers)) - 1]
        if status == 304 and not (self.headers.get("If-None-Match") or self.headers.get("If-Modified-Since")):
            status = 200
        body = b"" if status == 304 else b'{"n":%d}' % number
        out = [f"HTTP/1.1 {status} X", f"X-Count: {number}"]
        base = self.path.rsplit("/", 1)[0]
        if not any(line.startswith("Date:") for line in lines):
            out.append("Date: " + self.date_time_string())
        out += [line.replace("{base}", base) for line in lines]
        if status != 304:
            out += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self.wfile.write("\r\n".join(out).encode() + b"\r\n\r\n" + (b"" if self.command == "HEAD" else body))

    do_GET = do_HEAD = do_POST = do_PUT = do_FROB = answer

    def log_message(self, *arguments):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cache:
    """A cache in front of one origin."""
    tool = ""

    def __init__(self, directory, options):
        self.directory, self.options = Path(directory), options
        self.child = None

    def start(self, origin_port):
        self.port = free_port()
        self.home = Path(tempfile.mkdtemp(dir=self.directory))
        os.chmod(self.home, 0o777)
        log = open(self.home / "log", "wb")
        command, environment = self.command(origin_port)
        self.child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment}, start_new_session=True)
        end = time.time() + 30
        while time.time() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.child.poll() is not None:
                    break
                time.sleep(0.05)
        self.stop()
        raise RuntimeError((self.home / "log").read_text(errors="replace")[-400:])

    def stop(self):
        if self.child and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGTERM)
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait()


class Cistern(Cache):
    name = "Cistern --strict"

    def command(self, origin):
        return [self.options.cistern, "serve", "--strict", "--upstream", f"http://127.0.0.1:{origin}", "--listen", f"127.0.0.1:{self.port}",
                "--cache-dir", f"{self.home}/store", "--cache-size", "16MiB", "--shards", "1", "--set", "cache.store=any",
                "--set", "cache.entity_tags=false"], {}


class Nginx(Cache):
    name, tool = "nginx", "nginx"

    def command(self, origin):
        (self.home / "conf").write_text(f"""
daemon off; worker_processes 1; pid {self.home}/pid; error_log {self.home}/error.log crit;
events {{ worker_connections 64; }}
http {{ access_log off; proxy_cache_path {self.home}/cache keys_zone=one:1m; proxy_temp_path {self.home}/t1; client_body_temp_path {self.home}/t2;
  fastcgi_temp_path {self.home}/t3; uwsgi_temp_path {self.home}/t4; scgi_temp_path {self.home}/t5;
  server {{ listen 127.0.0.1:{self.port};
    location / {{ proxy_pass http://127.0.0.1:{origin}; proxy_http_version 1.1; proxy_cache one; proxy_cache_revalidate on;
      proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504; proxy_cache_background_update on; }} }} }}
""")
        return ["nginx", "-c", f"{self.home}/conf", "-e", f"{self.home}/error.log"], {}


class Varnish(Cache):
    name, tool = "Varnish", "varnishd"

    def command(self, origin):
        (self.home / "vcl").write_text(f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{origin}"; }}\n')
        return ["varnishd", "-F", "-n", f"{self.home}/work", "-a", f"127.0.0.1:{self.port}", "-f", f"{self.home}/vcl", "-s", "malloc,16m",
                "-T", "none"], {}


class Squid(Cache):
    name, tool = "Squid", "squid"

    def command(self, origin):
        (self.home / "conf").write_text(f"""
http_port 127.0.0.1:{self.port} accel defaultsite=origin no-vhost
cache_peer 127.0.0.1 parent {origin} 0 no-query originserver name=o
http_access allow all
cache_mem 16 MB
pid_filename {self.home}/pid
access_log none
cache_log {self.home}/cache.log
coredump_dir {self.home}
shutdown_lifetime 0 seconds
visible_hostname squid.test
netdb_filename none
pinger_enable off
""")
        return ["squid", "-N", "-f", f"{self.home}/conf"], {}


class TrafficServer(Cache):
    name, tool = "Traffic Server", "traffic_server"

    def command(self, origin):
        layout = self.home / "ats"
        shutil.copytree("/etc/trafficserver", layout / "etc")
        places = {"sysconfdir": "etc", "datadir": "data", "localstatedir": "var", "runtimedir": "run", "logdir": "log", "cachedir": "cache"}
        for place in places.values():
            (layout / place).mkdir(exist_ok=True)
        (layout / "runroot.yaml").write_text("".join(f"{name}: {layout / place}\n" for name, place in places.items())
                                             + "prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\n")
        (layout / "etc/remap.config").write_text(f"map / http://127.0.0.1:{origin}/\n")
        (layout / "etc/storage.config").write_text(f"{layout}/cache 32M\n")
        with open(layout / "etc/records.config", "a") as records:
            records.write(f"\nCONFIG proxy.config.http.server_ports STRING {self.port}:ip-in=127.0.0.1\n"
                          "CONFIG proxy.config.admin.user_id STRING #-1\nCONFIG proxy.config.http.cache.required_headers INT 2\n"
                          "CONFIG proxy.config.exec_thread.autoconfig.enabled INT 0\nCONFIG proxy.config.exec_thread.limit INT 1\n"
                          "CONFIG proxy.config.http.wait_for_cache INT 1\n")
        subprocess.run(["chmod", "-R", "a+rwX", str(layout)], check=True)
        return ["traffic_server"], {"TS_RUNROOT": str(layout)}


def ask(port, base, step):
    """Status, fields and count of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = dict(step.headers)
    body = b"x" if step.method in ("POST", "PUT", "FROB") else None
    connection.request(step.method, base + (step.target or "/a"), body=body, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def play(cache, row):
    """Plays one row; returns an empty text, or what went wrong."""
    origin = Origin(row)
    cache.start(origin.server_port)
    base = "/t"
    try:
        for number, step in enumerate(row.steps, 1):
            if row.down and number == len(row.steps):
                origin.is_down = True
                origin.shutdown()
                origin.server_close()
            time.sleep(step.wait)
            before = origin.count
            answer = ask(cache.port, base, step)
            asked = origin.count > before
            problem = judge(step, answer, asked)
            if problem:
                return f"step {number}: {problem}"
        return ""
    finally:
        cache.stop()
        if not row.down:
            origin.shutdown()
            origin.server_close()


def judge(step, answer, asked):
    if step.expect == ASK and not asked:
        return "not asked"
    if step.expect == HIT and asked:
        return "asked"
    if step.expect == "5xx" and answer.status < 500:
        return f"status {answer.status}"
    if isinstance(step.expect, int) and (answer.status != step.expect or (step.expect in (206, 304) and asked)):
        return f"status {answer.status}{', asked' if asked else ''}"
    for name, wanted in step.fields.items():
        value = answer.getheader(name)
        if (wanted is None and value is not None) or (wanted is True and value is None) or (isinstance(wanted, str) and value != wanted):
            return f"{name}: {value}"
    return ""


def run(kind, options, directory):
    def one(row):
        try:
            return play(kind(directory, options), row)
        except Exception as error:  # a cache that breaks a connection breaks the row
            return f"{type(error).__name__}: {error}"[:120]
    with ThreadPoolExecutor(options.parallel) as pool:
        return list(pool.map(one, ROWS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    parser.add_argument("--only", default="", help="names of caches, joined by commas: cistern, nginx, varnish, squid, traffic")
    parser.add_argument("--parallel", type=int, default=6)
    options = parser.parse_args()
    options.cistern = str(Path(options.cistern).resolve())
    kinds = [kind for kind in (Cistern, Nginx, Varnish, Squid, TrafficServer)
             if (not kind.tool or shutil.which(kind.tool))
             and (not options.only or any(kind.name.lower().startswith(name) for name in options.only.split(",")))]
    directory = tempfile.mkdtemp(prefix="cistern-caches-")
    os.chmod(directory, 0o777)
    try:
        results = {kind.name: run(kind, options, directory) for kind in kinds}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("| § | rule | " + " | ".join(results) + " |\n|---|---|" + "---|" * len(results))
    for index, row in enumerate(ROWS):
        print(f"| {row.section} | {row.name} | " + " | ".join("kept" if not result[index] else result[index] for result in results.values()) + " |")
    print("| | **kept** | " + " | ".join(f"{sum(not text for text in result)} of {len(ROWS)}" for result in results.values()) + " |")
    sys.exit(1 if any(results.get(Cistern.name, [])) else 0)


if __name__ == "__main__":
    main()
