"""The upstream of the stress test: each response says for which target, user and language it is, which version of it, and when it was asked for; and
it lies in every way that its connection allows. What reaches it damaged is a finding too."""
import asyncio
import json
import os
import random
import ssl
import time
import zlib

# What a response of each kind says about keeping it.
KINDS = {
    "fresh": "max-age=2",
    "short": "max-age=0",
    "swr": "max-age=1, stale-while-revalidate=2",
    "validated": "no-cache",
    "public": "public, max-age=2",
    "varied": "max-age=2",
    "counted": "max-age=1",
    "unkept": "no-store",
}
SHARED = {"public"}
# How often it lies, of 1000 requests each.
LIES = {
    "surplus": 12, "doubled": 8, "cut": 12, "cut_chunk": 8, "two_lengths": 4, "junk": 6, "html": 6, "error": 15, "busy": 3, "reset": 8,
    "early_end": 10, "stall": 1, "informational": 15, "silent_end": 10,
}


def checksum(target, user, language, version, asked, pad):
    return zlib.crc32(f"{target}|{user}|{language}|{version}|{asked}|{pad}".encode())


def content(target, user, language, version, asked, size, **more):
    pad = "x" * size
    return json.dumps({"target": target, "user": user, "language": language, "version": version, "asked": asked, "pad": pad,
                       "sum": checksum(target, user, language, version, asked, pad), **more}).encode()


class Upstream:
    def __init__(self, seed, report):
        self.random = random.Random(seed)
        self.report = report
        self.versions = {}
        self.counts = {}

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    async def serve(self, reader, writer):
        try:
            while await self.one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        asked = time.monotonic_ns() // 1_000_000
        line, *lines = head.split("\r\n")
        method, target, _ = line.split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines if each)}
        user = fields.get("authorization", "-").removeprefix("Bearer ")
        if fields.get("x-check", "") != f"{method} {target} {user}":
            self.report(f"a request arrived mixed up: {line!r} of {user!r} with {fields.get('x-check')!r}")
        if method == "PUT":
            if not await self.take_content(reader, writer, fields, target):
                return False
            version = self.versions[target] = self.versions.get(target, 0) + 1
        kind = target.split("/")[2]
        if kind == "counted" and method != "PUT":
            self.versions[target] = self.versions.get(target, 0) + 1
        version = self.versions.setdefault(target, 1)
        self.count(f"upstream_{method.lower()}")
        return await self.answer(writer, method, target, kind, user, fields, version, asked)

    async def take_content(self, reader, writer, fields, target):
        if "100-continue" in fields.get("expect", ""):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        text = b""
        if "chunked" in fields.get("transfer-encoding", ""):
            while True:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                text += await reader.readexactly(size)
                await reader.readexactly(2)
                if size == 0:
                    break
        else:
            text = await reader.readexactly(int(fields.get("content-length", "0")))
        try:
            value = json.loads(text)
            isRight = value["target"] == target and value["sum"] == zlib.crc32(value["pad"].encode())
        except (ValueError, KeyError):
            isRight = False
        if not isRight:
            self.report(f"content for {target} arrived as complete and is not: {len(text)} bytes, {text[:80]!r}")
        return True

    async def answer(self, writer, method, target, kind, user, fields, version, asked):
        chance = self.random
        lie, draw = "", chance.randrange(1000)
        for name, share in LIES.items():
            if draw < share:
                lie = name
                break
            draw -= share
        if lie:
            self.count("lie_" + lie)
        if method == "PUT" and lie not in ("informational", "early_end", "silent_end"):
            lie = ""
        if chance.randrange(20) == 0:
            await asyncio.sleep(chance.choice([0.01, 0.1, 0.4, 0.8]))
        owner = "*" if kind in SHARED else user
        language = fields.get("accept-language", "-") if kind == "varied" else "-"
        size = 40_000 if target.endswith("0") else 100 + zlib.crc32(target.encode()) % 2000
        tag = f'"{version}-{owner}-{language}"'
        control = f"Cache-Control: {KINDS[kind]}\r\nETag: {tag}\r\n" + ("Vary: Accept-Language\r\n" if kind == "varied" else "")
        if fields.get("if-none-match") == tag and method == "GET" and not lie and kind != "counted":
            self.count("upstream_304")
            writer.write(f"HTTP/1.1 304 Not Modified\r\n{control}\r\n".encode())
            await writer.drain()
            return True
        text = content(target, owner, language, version, asked, size)
        return await self.send(writer, lie, text, control, fields.get("accept-encoding", ""))

    async def send(self, writer, lie, text, control, accepted):
        chance = self.random
        # Nobody may ever see it.
        poison = content("/poison", "poison", "-", 0, 0, 10)
        foreign = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: public, max-age=60\r\nContent-Length: {len(poison)}\r\n\r\n".encode() + poison
        begin = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{control}"
        plain = f"{begin}Content-Length: {len(text)}\r\n\r\n".encode()
        if lie == "reset":
            writer.transport.abort()
            return False
        if lie == "stall":
            writer.write(plain + text[:50])
            await asyncio.sleep(3)
            return False
        if lie == "junk":
            writer.write(b"\x16\x03\x01\x02junk\r\n\r\n" + foreign)
        elif lie == "html":
            page = b"<html>Gateway sign-in</html>"
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n\r\n".encode() + page)
        elif lie in ("error", "busy"):
            wait = "Retry-After: 1\r\n" if lie == "busy" else ""
            writer.write(f"HTTP/1.1 503 Service Unavailable\r\n{wait}Content-Length: 0\r\n\r\n".encode())
        elif lie == "two_lengths":
            writer.write(f"{begin}Content-Length: {len(text)}\r\nContent-Length: {len(text) - 5}\r\n\r\n".encode() + text)
        elif lie == "cut":
            writer.write(plain + text[: chance.randrange(len(text))])
        elif lie == "cut_chunk":
            part = text[: chance.randrange(len(text))]
            writer.write(f"{begin}Transfer-Encoding: chunked\r\n\r\n{len(text):x}\r\n".encode() + part)
        elif lie == "surplus":
            writer.write(plain + text + foreign[: chance.choice([1, 20, len(foreign)])])
        elif lie == "doubled":
            writer.write(plain + text + foreign)
        elif lie == "early_end":
            writer.write(f"{begin}Connection: close\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        elif "gzip" in accepted and chance.randrange(2) == 0:
            packed = zlib.compressobj(1, zlib.DEFLATED, 31)
            coded = packed.compress(text) + packed.flush()
            writer.write(f"{begin}Content-Encoding: gzip\r\nContent-Length: {len(coded)}\r\n\r\n".encode() + coded)
        elif chance.randrange(3) == 0:
            half = len(text) // 2
            writer.write(f"{begin}Transfer-Encoding: chunked\r\n\r\n{half:x}\r\n".encode() + text[:half])
            await writer.drain()
            writer.write(f"\r\n{len(text) - half:x};a=b\r\n".encode() + text[half:] + b"\r\n0\r\nX-Trailer: a\r\n\r\n")
        else:
            writer.write((b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" if lie == "informational" else b"") + plain + text)
        await writer.drain()
        return lie in ("", "informational", "html", "error", "busy", "surplus", "doubled")


def run(port_pipe, seed, tls, queue):
    """A process: tells its port, then serves until it is ended."""
    def report(sentence):
        queue.put(("finding", {"kind": "upstream", "what": sentence}))

    async def main():
        upstream = Upstream(seed, report)
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
        server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=context, limit=1 << 17)
        port_pipe.send(server.sockets[0].getsockname()[1])
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, port_pipe.recv)
        queue.put(("counts", upstream.counts))
        # The rest would wait for connections that are kept.
        queue.close()
        queue.join_thread()
        os._exit(0)

    asyncio.run(main())
