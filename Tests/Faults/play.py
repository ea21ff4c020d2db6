"""One fault against the real proxy: a process of its own, a store of its own, an origin of its own."""
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from origin import Origin
from rows import JUNK, answer

# Seconds. The soft deadline is the product's default; the hard ones are shorter than its defaults, so that the run ends soon.
SOFT = 1.5
DEADLINES = {"prompt": 1.0, "connect": 2.0, "first byte": 2.0, "between bytes": 2.0, "total": 3.0}
# How exactly the proxy keeps its hard deadlines.
SWEEP = 0.05
PATH = "/things/1?page=2"
# The size of the store, of what is held of an answer.
ARGUMENTS = ["--cache-size", "8MiB", "--buffer-limit", "1MiB", "--shards", "1", "--log-level", "warning"]


class Wrong(Exception):
    """What a client saw is not what it should have seen."""


@dataclass
class Answer:
    status: int
    fields: list
    content: bytes
    seconds: float
    isCut: bool = False

    @property
    def plain(self):
        """The content without its coding."""
        return gzip.decompress(self.content) if self.all("content-encoding") == ["gzip"] else self.content

    def all(self, name):
        return [value for key, value in self.fields if key == name]

    def __str__(self):
        return f"{self.status} {self.content[:60]!r} {' '.join(self.all('cache-status') + self.all('proxy-status'))}"


class Client:
    """Reads answers as strictly as a client may: a length or chunks, and nothing behind them."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(path)
        self.held = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def get(self, target, fields=b"", method=b"GET"):
        began = time.monotonic()
        self.sock.sendall(method + b" " + target.encode() + b" HTTP/1.1\r\nHost: cistern.test\r\n" + fields + b"\r\n")
        while True:
            head = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", head[0])[1])
            if status >= 200:
                break
        fields = [(name.lower(), value.strip()) for name, value in (line.split(":", 1) for line in head[1:-2])]
        result = Answer(status, fields, b"", 0)
        try:
            result.content = self.content(result)
        except (EOFError, ConnectionResetError):
            result.isCut = True
        result.seconds = time.monotonic() - began
        return result

    def content(self, head):
        lengths, codings = head.all("content-length"), head.all("transfer-encoding")
        if head.status in (204, 304):
            if lengths or codings:
                raise Wrong(f"{head.status} with a length")
            return b""
        if codings:
            if lengths or codings != ["chunked"]:
                raise Wrong("a length beside chunks")
            content = b""
            while size := int(self.until(b"\r\n")[:-2], 16):
                content += self.exactly(size)
                self.until(b"\r\n")
            self.until(b"\r\n")
            return content
        if len(lengths) != 1:
            raise Wrong(f"{len(lengths)} lengths and no chunks")
        return self.exactly(int(lengths[0]))

    def more(self):
        got = self.sock.recv(65_536)
        if not got:
            raise EOFError("the proxy closed the connection")
        self.held += got

    def until(self, mark):
        while mark not in self.held:
            self.more()
        line, self.held = self.held.split(mark, 1)
        return line + mark

    def exactly(self, count):
        while len(self.held) < count:
            self.more()
        content, self.held = self.held[:count], self.held[count:]
        return content


class Cistern:
    """- Parameters:
      - names: how names resolve for it; nil for as on this machine.
    """

    def __init__(self, binary, upstream, directory, arguments=(), names=None):
        self.socket = os.path.join(directory, "socket")
        self.log = os.path.join(directory, "log")
        command = [binary, "serve", "--upstream", upstream, "--listen", f"unix:{self.socket}", "--cache-dir", os.path.join(directory, "store"),
                   *ARGUMENTS, "--connect-timeout", self.text("connect"), "--first-byte-timeout", self.text("first byte"),
                   "--set", f"upstream.between_bytes_timeout={self.text('between bytes')}", "--total-timeout", self.text("total"),
                   "--set", f"cache.rescue_after={int(SOFT * 1000)}ms", *arguments]
        self.command = names.wrap(command) if names else command
        self.start()

    @staticmethod
    def text(deadline):
        return f"{int(DEADLINES[deadline] * 1000)}ms"

    def start(self):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.command, stdout=log, stderr=log)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                if self.get("/healthz").status == 200:
                    return
            except OSError:
                time.sleep(0.01)
            if self.child.poll() is not None:
                break
        raise Wrong(f"the proxy does not start: {self.said()}")

    def get(self, target, fields=b"", method=b"GET"):
        with Client(self.socket) as client:
            return client.get(target, fields, method)

    def metric(self, name):
        """The sum over all labels."""
        page = self.get("/metrics").content.decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE))

    def wait_idle(self):
        end = time.monotonic() + DEADLINES["total"] + 2
        while time.monotonic() < end:
            if self.metric("cistern_upstream_active_requests") == 0:
                return
            time.sleep(0.02)
        raise Wrong("a request to the upstream outlives its hard deadline")

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-400:]

    def stop(self):
        """Ends it in order; that it was still there, and well, is part of the play."""
        if self.child.poll() is not None:
            raise Wrong(f"the proxy died with {self.child.returncode}: {self.said()}")
        self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(15)
        except subprocess.TimeoutExpired:
            raise Wrong("the proxy does not stop") from None
        if code:
            raise Wrong(f"the proxy ended with {code}: {self.said()}")

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


@dataclass
class Outcome:
    """What one half of a row showed: milliseconds, and what was wrong with the answer, the store and the first answer afterwards."""
    milliseconds: float = 0
    answer: str = ""
    store: str = ""
    recovery: str = ""
    skipped: str = ""
    wrong: list = field(default_factory=list)

    @property
    def isRed(self):
        return bool(self.answer or self.store or self.recovery)


class Play:
    """A GET of everybody's. Others say in `method`, `fields` and `arguments` what is asked, and in `good` and `is_version` what is good."""
    method = b"GET"
    # Of what is asked for where there is no copy, to see that the proxy works.
    other = "/other"
    # What Cache-Status says of a copy.
    mark = "cistern; (hit|fwd=stale)"

    def __init__(self, fault, options, certificates, names):
        self.fault, self.options, self.certificates = fault, options, certificates
        self.names = names if fault.resolving else None

    def fields(self, stage):
        """Request fields, when the copy is made (`fill`), under the fault (`fault`) and afterwards (`after`)."""
        return self.fault.fields if stage == "fault" else b""

    def arguments(self, directory):
        return []

    def ask(self, stage, target=PATH):
        return self.cistern.get(target, self.fields(stage), self.method)

    def is_version(self, got, version):
        return got.status == 200 and got.plain == self.good(version)[0]

    def good(self, version):
        content = json.dumps({"version": version, "path": PATH, "text": "good " * 300}).encode()
        fields = b"X-Version: %d\r\n" % version + self.fault.validators
        sent = content
        if self.fault.isCoded:
            sent, fields = gzip.compress(content, mtime=0), fields + b"Content-Encoding: gzip\r\n"
        return content, answer(sent, fields=fields, type=b"application/json; charset=utf-8")

    def run(self, hasCopy):
        outcome = Outcome()
        if self.fault.resolving and not self.names.works(self.fault.resolving):
            outcome.skipped = "skipped"
            return outcome
        directory = tempfile.mkdtemp(prefix="cistern-fault-", dir=self.options.directory)
        self.origin = Origin(self.certificates if self.fault.isTLS else None)
        self.cistern = None
        try:
            self.begin(directory)
            step = "answer"
            try:
                self.prepare(hasCopy)
                outcome.milliseconds = self.fail(hasCopy) * 1000
                step = "store"
                self.check_store(hasCopy)
                step = "recovery"
                self.recover()
                self.cistern.stop()
            except (Wrong, OSError, EOFError) as error:
                setattr(outcome, step, f"{error}" or type(error).__name__)
        finally:
            if self.cistern:
                self.cistern.kill()
            self.origin.close()
            shutil.rmtree(directory, ignore_errors=True)
        return outcome

    def begin(self, directory):
        self.serve(1)
        arguments = self.arguments(directory)
        if self.fault.isTLS:
            arguments += ["--set", f"upstream.ca_file={self.certificates.authority}"]
        host = "127.0.0.1"
        names = None
        if self.names:
            names = self.names.make(directory)
            host = names.host
        upstream = f"{'https' if self.fault.isTLS else 'http'}://{host}:{self.origin.port}"
        self.process_names = names
        self.cistern = Cistern(self.options.cistern, upstream, directory, arguments, names)

    def serve(self, version):
        whole = self.good(version)[1]
        self.origin.good(lambda _: whole)

    def prepare(self, hasCopy):
        filled = self.ask("fill", PATH if hasCopy else self.other)
        if not self.is_version(filled, 1) or "stored" not in filled.all("cache-status")[0]:
            raise Wrong(f"the first answer is not stored: {filled}")
        whole = self.good(2)[1]
        self.origin.fail(self.fault, lambda _: whole)
        if self.process_names:
            self.cistern.stop()
            self.process_names.set(self.fault.resolving)
            self.cistern.start()

    def fail(self, hasCopy):
        expected = self.fault.copy if hasCopy else self.fault.bare
        with Client(self.cistern.socket) as client:
            got = client.get(PATH, self.fields("fault"), self.method)
            self.check(got, expected)
            if not got.isCut:
                after = client.get("/healthz")
                if after.status != 200 or client.held:
                    raise Wrong(f"the client's connection is out of step: {after}")
        tolerance = self.options.tolerance / 1000
        limit = SOFT + tolerance if hasCopy else DEADLINES[self.fault.deadline] + SWEEP + tolerance
        if got.seconds > limit:
            raise Wrong(f"took {got.seconds * 1000:.0f} ms, more than {limit * 1000:.0f}")
        return got.seconds

    def check(self, got, expected):
        kind, *words = expected.split()
        if kind == "copy":
            self.check_copy(got, 1, self.fault.fields)
        elif kind == "new":
            if not self.is_version(got, 2):
                raise Wrong(f"not the new answer: {got}")
        elif kind == "passed":
            status, content = self.meant()
            if words:
                status = int(words[0])
            if got.status != status or (got.isCut != ("cut" in words)) or ("cut" not in words and got.content != content):
                raise Wrong(f"not passed on as it was: {got}")
        else:
            self.check_own(got, [int(expected)])

    def meant(self):
        """Status and content that the fault's answer has."""
        if self.fault.passed:
            return self.fault.passed
        status = int(self.fault.steps[0].split(b" ", 2)[1])
        return status, self.fault.steps[0].split(b"\r\n\r\n", 1)[1]

    def check_copy(self, got, version, fields=b""):
        isCopy = self.is_version(got, version) if version else got.status == 200 and self.meant()[1] in (got.plain, got.content)
        if got.isCut or not isCopy:
            raise Wrong(f"not the copy: {got}")
        if version and got.all("content-encoding") != (["gzip"] if b"gzip" in fields else []):
            raise Wrong(f"Content-Encoding of the copy: {got.all('content-encoding')}")
        if version and got.content and got.all("content-type") != ["application/json; charset=utf-8"]:
            raise Wrong(f"Content-Type of the copy: {got.all('content-type')}")
        if len(got.all("age")) != 1 or not re.search(self.mark, got.all("cache-status")[-1]):
            raise Wrong(f"a copy that is not marked as one: {got.fields}")
        for name in self.fault.unstored:
            if got.all(name):
                raise Wrong(f"{name} was stored")

    def check_own(self, got, statuses):
        sentence = got.content.decode("utf-8", "replace").strip()
        if got.status not in statuses or got.isCut:
            raise Wrong(f"expected {' or '.join(map(str, statuses))}: {got}")
        if got.all("content-type") != ["text/plain; charset=utf-8"] or not re.fullmatch(r"[A-Z][^\n]{10,200}\.", sentence):
            raise Wrong(f"not one clear sentence: {got}")
        if not re.match(r'cistern; error=[a-z_]+(; [a-z-]+=([0-9]+|"[^"]+"))*$', (got.all("proxy-status") or [""])[-1]):
            raise Wrong(f"no Proxy-Status: {got.fields}")
        if got.status == 503 and not got.all("retry-after"):
            raise Wrong("503 without Retry-After")

    def check_store(self, hasCopy):
        """Behind a connection that is out of step another request would get what is not its own. Then the origin goes down: what is
        served is what is stored."""
        self.cistern.wait_idle()
        if b"poison" in b"".join(step for step in self.fault.steps if isinstance(step, bytes)):
            # What comes after the next request was sent cannot be told from its answer: so it comes before.
            time.sleep(0.05 + sum(step for step in self.fault.steps if isinstance(step, float)))
            if b"poison" in self.cistern.get("/next").content:
                raise Wrong("the bytes behind an answer were taken for the next one")
            self.cistern.wait_idle()
        self.origin.down()
        got = self.ask("after")
        if self.fault.after == "new" or (self.fault.after == "first" and not hasCopy):
            self.check_copy(got, 2 if "new" in (self.fault.copy, self.fault.bare) else None)
        elif hasCopy and self.fault.after == "gone":
            if got.status not in (404, 410) or "/gone" not in got.all("cache-status")[-1]:
                raise Wrong(f"what is gone came back: {got}")
        elif hasCopy:
            self.check_copy(got, 1)
        else:
            self.check_own(got, [502, 503, 504])
        self.cistern.wait_idle()

    def recover(self):
        self.serve(3)
        if self.process_names:
            self.process_names.set("known")
        end = time.monotonic() + self.fault.pause
        while True:
            got = self.ask("after")
            if self.is_version(got, 3):
                return
            if time.monotonic() > end:
                raise Wrong(f"not the new answer: {got}")
            time.sleep(0.05)


class PreflightPlay(Play):
    """A browser asks whether a script of another origin may. What is good allows another method in each version."""
    method = b"OPTIONS"
    # It is asked each time: else the copy would be fresh.
    grant = b"Access-Control-Allow-Origin: https://app.test\r\nAccess-Control-Max-Age: 0\r\nAccess-Control-Allow-Methods: PUT, VERSION-%d\r\n"

    def fields(self, stage):
        return b"Origin: https://app.test\r\nAccess-Control-Request-Method: PUT\r\n"

    def good(self, version):
        return b"", b"HTTP/1.1 204 No Content\r\n" + self.grant % version + b"\r\n"

    def is_version(self, got, version):
        return got.status == 204 and got.all("access-control-allow-methods") == [f"PUT, VERSION-{version}"]


class TokenPlay(Play):
    """The copy is of a user with a signed token; who asks under the fault has another token: the same user's, or another one."""

    # An expired token has no copies of its own; that of its user stands in.
    mark = Play.mark + "|fwd=uri-miss; fwd-status=503; detail=server_error/expired_token"

    def __init__(self, fault, options, certificates, names):
        super().__init__(fault, options, certificates, names)
        self.tokens = certificates.tokens

    def arguments(self, directory):
        settings = {"keys": self.tokens.keys, "issuer": "https://id.test", "audience": "api", "rescue_expired": "10m"}
        return [word for name, value in settings.items() for word in ("--set", f"credentials.identity.jwt.{name}={value}")]

    def fields(self, stage):
        token = self.tokens.make(self.fault.user) if stage == "fault" else self.tokens.make("refreshed")
        return b"Authorization: Bearer " + token + b"\r\n" + super().fields(stage)

    def good(self, version):
        content, whole = super().good(version)
        return content, whole.replace(b"\r\nX-Version", b"\r\nCache-Control: private, no-cache\r\nX-Version", 1)
