"""What a scene has at hand: a Cistern with the quick clock, a scripted upstream, clients, Prometheus, and a look at all that Cistern says.

All times are in seconds of the quick clock, which are what an operator would see.
"""
import html
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Faults"))

from origin import CLOSE, HANG, Certificates, Drip, Origin  # noqa: E402, F401  (Tests/Faults/origin.py, also for scenes)

# Where Cistern and the upstream would meet the machine's speed, not the clock: real seconds.
PATIENCE = 20


class Wrong(Exception):
    """What is seen is not what the scene expects."""


class Skipped(Exception):
    """What the scene needs is not there, such as root."""


def compile_library(name, directory):
    """Compiles a library for LD_PRELOAD from the C file of this name here, and returns its path."""
    path = os.path.join(directory, f"{name}.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", path, os.path.join(HERE, f"{name}.c"), "-ldl"], check=True)
    return path


def free_ports(count, first):
    """Ports from `first` on that nothing listens on, below those that the kernel gives to connections: so nothing takes one before it is used."""
    found = []
    for port in range(first, 32_000):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise Wrong("no port is free")


class Upstream(Origin):
    """An origin whose responses a function makes.
    - script: from a `Request` to the steps of Tests/Faults/origin.py, or to the bytes of one response.
    """

    def __init__(self, script, certificates=None):
        super().__init__(certificates)
        self.asked = []
        self.certificate = "good"
        self.play(script)

    def play(self, script, certificate="good", at="answer", steps=()):
        """From now on this script counts, also on connections that are open.
        - at: "accept" or "handshake": `steps` are performed at once, or behind the client's first bytes, and the connection ends."""
        self.change(keeps=certificate == self.certificate and at == "answer")
        self.certificate, self.at, self.fault, self.times, self.script = certificate, at, SimpleNamespace(steps=steps), 0, script
        self.listen()

    def steps_for(self, head, isKept):
        request = Request(head)
        self.asked.append(request.target)
        steps = self.script(request)
        return (steps,) if isinstance(steps, bytes) else steps


class Request:
    def __init__(self, head):
        lines = head.split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        self.method, self.target = lines[0].split(" ")[:2]
        self.fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}


def response(status=200, content=b'{"well":true}', type="application/json", **fields):
    """The bytes of a response. No Date: the upstream's clock is not the quick one.
    - fields: others, such as cache_control="max-age=60"."""
    lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, 'Unknown')}"]
    if status != 304:
        lines += [f"Content-Type: {type}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if status == 304 else content)


def well(request):
    """Everything is there, and has to be validated each time."""
    return response(content=b'{"target":"%s"}' % request.target.encode(), cache_control="max-age=0")


def fresh(request):
    return response(content=b'{"target":"%s"}' % request.target.encode(), cache_control="max-age=600")


def fails(status=503):
    return lambda request: response(status, b"the upstream is out of order", "text/plain")


class Answer:
    def __init__(self, status, fields, content):
        self.status, self.fields, self.content = status, fields, content

    def __str__(self):
        said = [f"{name}: {value}" for name, value in self.fields if name.lower() in ("cache-status", "proxy-status", "retry-after")]
        return "\n".join([f"status {self.status}", *said, "", self.content.decode("utf-8", "replace").strip()])


class Clients:
    """Ask for the targets in turn until they are stopped, each from an address of its own."""

    def __init__(self, play, targets, every, count, fields, method):
        self.play, self.targets, self.every, self.fields, self.method = play, targets, every, fields, method
        self.is_over = threading.Event()
        self.statuses = []
        self.threads = [threading.Thread(target=self.ask, args=(number,), daemon=True) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self, number):
        turn = number
        pause = self.play.real(self.every) * len(self.threads)
        due = time.monotonic() + self.play.real(self.every) * number
        while not self.is_over.wait(max(0, due - time.monotonic())):
            due = max(due + pause, time.monotonic())
            try:
                got = self.play.ask(self.targets[turn % len(self.targets)], self.fields, self.method, client=number)
                self.statuses.append(got.status)
            except (OSError, http.client.HTTPException):
                self.statuses.append(0)
            turn += 1

    def stop(self):
        self.is_over.set()


class Play:
    """- Parameters:
      - run: the options, Prometheus, its targets, and the library with the quick clock.
      - instance: the scene's name in Prometheus.
    """

    def __init__(self, run, instance):
        self.run, self.instance, self.port, self.speed = run, instance, run.ports[instance], run.speed
        self.directory = tempfile.mkdtemp(prefix="cistern-scene-", dir=run.directory)
        self.store = os.path.join(self.directory, "store")
        # Not in the store, which may be on a disk that only Cistern sees.
        self.admin = os.path.join(self.directory, "admin.sock")
        self.log_path = os.path.join(self.directory, "log")
        self.process = None
        self.binary = run.cistern
        self.upstream = None
        self.upstreams = []
        self.clients = []
        self.others = []
        self.wrong = []
        self.outputs = None
        self.troubled = self.recovered = None
        # What the machine's clock is set forward by, in nanoseconds.
        self.offset = os.path.join(self.directory, "offset")
        with open(self.offset, "wb") as file:
            file.write(bytes(8))
        self.start_time = time.time_ns()
        self.environment = {**os.environ, "LD_PRELOAD": run.clock, "QUICK_CLOCK_SPEED": str(self.speed),
                            "QUICK_CLOCK_START": str(self.start_time), "QUICK_CLOCK_OFFSET": self.offset, "TZ": "UTC"}

    # Time

    def real(self, seconds):
        return seconds / self.speed

    def wait(self, seconds):
        time.sleep(self.real(seconds))

    def now(self):
        """The time of day by the quick clock, in seconds."""
        return (self.start_time + (time.time_ns() - self.start_time) * self.speed) / 1e9

    # Who plays

    def make_upstream(self, script=well, certificates=None):
        """The first one is `upstream`."""
        made = Upstream(script, certificates)
        self.upstreams.append(made)
        self.upstream = self.upstream or made
        return made

    def start(self, *settings, config="", url=None, prefix=(), environment=None, listen=(), isQuick=True):
        """Starts Cistern before `upstream`, which is made where there is none.
        - settings: `name=value`, as for --set. config: a YAML file. url: of another upstream; empty where the file names it.
        - prefix: a command that runs Cistern, such as unshare. environment: more of it; an LD_PRELOAD is loaded beside the clock.
        - listen: more addresses. isQuick: whether its clock is quick; one that shares with other nodes compares its clock with the engine's."""
        if not isQuick:
            del self.environment["LD_PRELOAD"]
        if url is None:
            url = f"http://127.0.0.1:{(self.upstream or self.make_upstream()).port}"
        self.command = [*prefix, *self.serve_command(self.store, url, (f"127.0.0.1:{self.port}", *listen), (f"admin.socket={self.admin}", *settings))]
        if config:
            self.command += ["--config", self.write("cistern.yaml", config)]
        extra = dict(environment or {})
        if "LD_PRELOAD" in extra:
            extra["LD_PRELOAD"] = ":".join([self.environment.get("LD_PRELOAD", ""), extra["LD_PRELOAD"]]).strip(":")
        self.environment.update(extra)
        self.process = self.spawn(self.command)
        self.wait_until("Cistern serves", lambda: self.get("/healthz").status == 200)
        self.wait_until("Prometheus sees it", lambda: any(
            each["value"][1] == "1" for each in self.run.prometheus.series(f'up{{instance="{self.instance}"}}', time.time())))
        # What was said of the port before it was Cistern's is over by then.
        self.wait(45)
        self.began = time.time()

    def serve_command(self, store, url, listen, settings):
        """A Cistern with one shard and, where the settings have no other size, a small store.
        - url: of the upstream; empty where a file of settings names it."""
        command = [self.binary, "serve", "--cache-dir", store, "--shards", "1"]
        for address in listen:
            command += ["--listen", address]
        if url:
            command += ["--upstream", url]
        # Of two values of a setting the last one counts.
        for setting in ("store.size=8MiB", *settings):
            command += ["--set", setting]
        return command

    def start_other(self, name, url, address, *settings):
        """Starts another Cistern, whose store is the directory of this name in the scene's."""
        self.others.append(self.spawn(self.serve_command(os.path.join(self.directory, name), url, [address], settings)))

    def spare_port(self):
        """A port for another process of the scene, beyond those of all scenes."""
        return free_ports(1, self.port + 2_000)[0]

    def spawn(self, command):
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, cwd=self.directory)

    def take_over(self):
        """Another process of the same command goes on in the place of this one. Its five seconds are short for a busy machine: it is tried again."""
        before = self.process
        for _ in range(10):
            successor = self.spawn([*self.command, "--take-over"])
            self.others.append(successor)
            while before.poll() is None and successor.poll() is None:
                time.sleep(0.02)
            if successor.poll() is None:
                self.process = successor
                return
        raise Wrong("no process takes over")

    def restart(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.process = self.spawn(self.command)
        self.wait_until("Cistern serves again", lambda: self.get("/healthz").status == 200)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def ask(self, target, fields=None, method="GET", content=None, client=0):
        """A request on a connection of its own, from the address of a client. `get` is a GET of the first client."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE, source_address=(f"127.0.1.{client + 1}", 0))
        try:
            connection.request(method, target, content, {"Host": "cistern.test", **(fields or {})})
            got = connection.getresponse()
            return Answer(got.status, got.getheaders(), got.read())
        finally:
            connection.close()

    get = ask

    def keep_asking(self, *targets, every=4, count=1, fields=None, method="GET"):
        """Clients who ask for the targets in turn, together one request in `every` seconds, until the scene ends or their `stop`."""
        made = Clients(self, targets or ("/users/1",), every, count, fields, method)
        self.clients.append(made)
        return made

    # What is seen

    def tool(self, *arguments, admin=None):
        """What a command of Cistern prints, by its admin socket, or by that of another one."""
        done = subprocess.run([self.binary, *arguments, "--admin", f"unix:{admin or self.admin}"], env=self.environment, timeout=PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        return done.stdout

    def metrics(self):
        return self.get("/metrics").content.decode()

    def page(self):
        """The text of the page of the state, a line for each element."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(self.admin)
            connection.sendall(b"GET /-/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            whole = b""
            while got := connection.recv(65_536):
                whole += got
        text = whole.split(b"\r\n\r\n", 1)[1].decode("utf-8", "replace")
        text = re.sub(r"<(style|script)\b.*?</\1>", "", text, flags=re.DOTALL)
        text = re.sub(r"</(p|tr|h\d|dt|dd|li|section|table)>", "\n", text)
        text = html.unescape(re.sub(r"<[^>]*>", " ", text))
        return "\n".join(line for line in (re.sub(r"\s+", " ", line).strip() for line in text.split("\n")) if line)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def trouble(self):
        """The trouble of the scene begins: alerts have their time from now on."""
        self.troubled = time.time()

    def recover(self):
        """The trouble is over: when the scene ends no alert may fire any more."""
        self.recovered = time.time()

    def look(self, target="/users/1", asksLast=False):
        """Collects everything that Cistern says now; the scene's `outputs` are compared with it when it ends.
        - asksLast: the request for the target comes last, where it would change the state."""
        got = None if asksLast else self.get(target)
        status, _, stats = self.tool("status").partition("\n\n")
        self.outputs = {
            "gauge": self.metrics(), "alert": self.run.prometheus.summaries(self.instance).replace(self.instance, "cistern:8080"), "page": self.page(),
            "status": status, "upstream": self.tool("upstream"), "stats": stats,
            "why": self.tool("why", target, "--last", "4"), "log": self.log()}
        self.outputs["response"] = str(got or self.get(target))

    def expect(self, condition, sentence):
        if not condition:
            self.wrong.append(sentence)

    def wait_until(self, what, condition, real_seconds=PATIENCE):
        end = time.monotonic() + real_seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except (OSError, http.client.HTTPException):
                pass
            if self.process and self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise Wrong(f"never came about: {what}. The log ends: {self.log()[-1500:]}")

    def finish(self):
        """Two more rounds of Prometheus; then all ends."""
        self.wait(35)
        self.ended = time.time()

    def close_processes(self):
        for each in self.clients:
            each.stop()
        for process in [self.process, *self.others]:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        for each in self.upstreams:
            each.close()

    def remove(self):
        if not self.run.keep:
            shutil.rmtree(self.directory, ignore_errors=True)
