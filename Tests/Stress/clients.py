"""The clients of the stress test: many users on pipelined connections, who leave in the middle of what they send or get, and hold every response
against what they have seen before."""
import asyncio
import json
import random
import time
import zlib

from upstream import KINDS, SHARED, checksum

USERS = ["-", "-", "ada", "ben", "cyd", "dan"]
LANGUAGES = ["de", "en"]
# Milliseconds. Requests that were sent so close together may reach the upstream in another order.
ORDER_TOLERANCE = 250


class Wanted:
    """A request, and what had been seen when it was sent."""

    def __init__(self, clients, kind, target, user, method):
        random_ = clients.random
        self.kind, self.target, self.user, self.method = kind, target, user, method
        self.language = random_.choice(LANGUAGES) if kind == "varied" else "-"
        self.packed = random_.randrange(2) == 0
        self.epoch, self.mode_epoch = clients.epoch.value, clients.modes.value
        self.sent = time.monotonic_ns() // 1_000_000
        self.seen = clients.seen.get(self.key)
        self.written = clients.written.get(target)
        self.pad = "y" * (random_.choice([0, 10, 3000, 60_000]) if method == "PUT" else 0)
        self.chunked = random_.randrange(2) == 0

    @property
    def key(self):
        return self.target, self.user, self.language

    def fields(self):
        fields = [("X-Check", f"{self.method} {self.target} {self.user}")]
        if self.user != "-":
            fields.append(("Authorization", f"Bearer {self.user}"))
        if self.kind == "varied":
            fields.append(("Accept-Language", self.language))
        if self.packed:
            fields.append(("Accept-Encoding", "gzip"))
        return fields

    def content(self):
        if self.method != "PUT":
            return b""
        return json.dumps({"target": self.target, "pad": self.pad, "sum": zlib.crc32(self.pad.encode())}).encode()

    def text(self):
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: stress"] + [f"{name}: {value}" for name, value in self.fields()]
        content = self.content()
        if content:
            if self.chunked:
                lines.append("Transfer-Encoding: chunked")
                half = len(content) // 2
                content = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (half, content[:half], len(content) - half, content[half:])
            else:
                lines.append(f"Content-Length: {len(content)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + content


class Clients:
    def __init__(self, number, port, seed, epoch, modes, queue):
        self.number, self.port, self.queue = number, port, queue
        self.epoch, self.modes = epoch, modes
        self.random = random.Random(seed * 1000 + number)
        self.seen, self.written, self.counts = {}, {}, {}
        self.findings = 0

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def find(self, what, wanted, head, value):
        self.findings += 1
        self.count("findings")
        if self.findings <= 20:
            self.queue.put(("finding", {"kind": what, "target": wanted.target, "user": wanted.user, "language": wanted.language,
                                        "method": wanted.method, "sent": wanted.sent, "now": time.monotonic_ns() // 1_000_000,
                                        "seen": wanted.seen, "written": wanted.written, "head": head,
                                        "got": {name: value[name] for name in value if name != "pad"} if isinstance(value, dict) else str(value)[:200]}))

    async def run(self, end):
        await asyncio.gather(*(self.connections(end) for _ in range(24)))

    async def connections(self, end):
        while time.monotonic() < end:
            writer = None
            try:
                reader, writer = await self.connect()
                for _ in range(self.random.randrange(1, 60)):
                    if time.monotonic() >= end or not await self.batch(reader, writer):
                        break
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError):
                self.count("connection_failed")
                await asyncio.sleep(0.02)
            finally:
                if writer:
                    writer.transport.abort() if self.random.randrange(2) else writer.close()

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 18)

    def wish(self):
        kind = self.random.choice(list(KINDS))
        # Few targets, so that what happens to them happens at the same time.
        target = f"/w{self.number}/{kind}/{min(self.random.randrange(24), self.random.randrange(24))}"
        method = "PUT" if self.random.randrange(25) == 0 else "GET"
        return Wanted(self, kind, target, self.random.choice(USERS), method)

    async def batch(self, reader, writer):
        """Several requests at once; False where the connection is of no more use."""
        batch = [self.wish() for _ in range(self.random.choice([1, 1, 1, 2, 3, 6]))]
        text = b"".join(wanted.text() for wanted in batch)
        leaves = self.random.randrange(100)
        if leaves == 0:
            self.count("left_while_sending")
            writer.write(text[: self.random.randrange(len(text))])
            await writer.drain()
            return False
        writer.write(text)
        await writer.drain()
        if leaves == 1:
            self.count("left_while_receiving")
            await reader.read(self.random.randrange(1, 20_000))
            return False
        for wanted in batch:
            if not await asyncio.wait_for(self.response(reader, wanted), 30):
                return False
        return True

    async def response(self, reader, wanted):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status = int(head[9:12])
            if status >= 200:
                break
        fields = {}
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            fields[name.lower()] = (fields[name.lower()] + ", " if name.lower() in fields else "") + value.strip()
        content = await self.content(reader, status, fields)
        return self.take(wanted, status, head, fields, content) and "close" not in fields.get("connection", "")

    def take(self, wanted, status, head, fields, content):
        """Checks a complete response; False if its content is damaged."""
        self.count(f"status_{status}")
        if fields.get("content-encoding") == "gzip":
            try:
                content = zlib.decompress(content, 31)
            except zlib.error:
                self.find("damaged gzip as complete", wanted, head, content)
                return False
        if status == 200:
            self.check(wanted, head, fields, content)
        return True

    async def content(self, reader, status, fields):
        if status in (204, 304):
            return b""
        if "chunked" not in fields.get("transfer-encoding", ""):
            return await reader.readexactly(int(fields["content-length"])) if "content-length" in fields else await reader.read()
        content = b""
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size == 0:
                while await reader.readuntil(b"\r\n") != b"\r\n":
                    pass
                return content
            content += await reader.readexactly(size)
            await reader.readexactly(2)

    def check(self, wanted, head, fields, content):
        if fields.get("content-type", "").startswith("text/html"):
            return self.count("html")
        try:
            value = json.loads(content)
            right = checksum(value["target"], value["user"], value["language"], value["version"], value["asked"], value["pad"])
        except (ValueError, KeyError, TypeError):
            return self.find("truncated or mixed as complete", wanted, head, content)
        if value["sum"] != right:
            return self.find("wrong checksum", wanted, head, value)
        owner = "*" if wanted.kind in SHARED else wanted.user
        if (value["target"], value["user"], value["language"]) != (wanted.target, owner, wanted.language):
            return self.find("another's response", wanted, head, value)
        self.check_order(wanted, head, fields, value)

    def check_order(self, wanted, head, fields, value):
        status = fields.get("cache-status", "")
        came = status.partition(";")[2].partition("=")[0].strip() if "hit" not in status else "hit"
        self.count("from_store" if came == "hit" else "from_upstream")
        # After a kill the newest may be lost: what was seen before says nothing.
        if self.epoch.value != wanted.epoch or wanted.epoch % 2:
            return
        version, asked = value["version"], value["asked"]
        if wanted.seen and wanted.seen[2] == wanted.epoch and version < wanted.seen[0] and asked + ORDER_TOLERANCE < wanted.seen[1]:
            self.find("older than what was stored before", wanted, head, value)
        isOld = "detail=" in status or "ttl=-" in status or "stale" in status or self.modes.value != wanted.mode_epoch or wanted.mode_epoch % 2
        if wanted.written and wanted.written[1] == wanted.epoch and version < wanted.written[0] and not isOld and wanted.method == "GET":
            self.find("older than a write that had finished", wanted, head, value)
        if wanted.method == "PUT":
            if version > self.written.get(wanted.target, (0, -1))[0] or self.written[wanted.target][1] != wanted.epoch:
                self.written[wanted.target] = (version, wanted.epoch)
        elif "hit" in status or "stored" in status:
            now = self.seen.get(wanted.key)
            if not now or now[2] != wanted.epoch or version > now[0]:
                self.seen[wanted.key] = (version, asked, wanted.epoch)


def run(number, port, seed, seconds, epoch, modes, queue, protocol):
    if protocol == "http2":
        from clients_http2 import HTTP2Clients
    clients = (HTTP2Clients if protocol == "http2" else Clients)(number, port, seed, epoch, modes, queue)
    try:
        asyncio.run(clients.run(time.monotonic() + seconds))
    finally:
        queue.put(("counts", clients.counts))
