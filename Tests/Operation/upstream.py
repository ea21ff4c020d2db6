"""The upstream of the trials here: small JSON that says which version of it this is, whose, and its number; and writes that take their time (POST) or not (PUT)."""
import asyncio
import json
import random
import re

SLOWEST_WRITE = 0.3
PADDING = "x" * 150


class Connection(asyncio.Protocol):
    """Pipelined requests without content are answered in their order."""
    # How often each target below /slow/ was asked for.
    versions, asked, of = {}, 0, {}

    def connection_made(self, transport):
        self.transport, self.held = transport, b""

    def data_received(self, data):
        *heads, self.held = (self.held + data).split(b"\r\n\r\n")
        for head in heads:
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            if method == "POST":
                asyncio.get_running_loop().call_later(random.random() * SLOWEST_WRITE, self.write, target)
            elif method == "PUT":
                self.write(target)
            elif target == "/asked" or target.startswith("/asked-of/"):
                self.answer(str(self.of.get(target[9:], 0) if "-of" in target else Connection.asked), "no-store")
            elif target.startswith("/slow/"):
                self.of[target] = self.of.get(target, 0) + 1
                self.answer_slowly(target)
            else:
                Connection.asked += 1
                user = re.search(rb"\r\nauthorization: (\S+)", head, re.I)
                self.answer(target, "no-store" if target.startswith("/pass/") else "max-age=86400", user and user[1].decode())

    def write(self, target):
        self.versions[target] = self.versions.get(target, 0) + 1
        if not self.transport.is_closing():
            self.answer(target, "no-store")

    def item(self, source):
        """About 150 bytes of JSON, as APIs have it."""
        return {
            "id": source.randrange(1_000_000), "name": f"user {source.randrange(10_000)}", "created_at": f"2026-11-{source.randrange(1, 29):02}T12:22:33Z",
            "price": source.randrange(100_000) / 100, "tags": [f"{source.randrange(1 << 20):x}", "new"], "note": f"{source.getrandbits(64):x} is sold"}

    def answer_slowly(self, target):
        """/slow/STATUS/CONTROL/SECONDS/BYTES/...: nothing of it comes before the time is over, but for a long response's head and a part of its content."""
        _, _, status, control, seconds, length, *_ = target.split("/")
        content = json.dumps({"padding": "x" * int(length)}).encode()
        head = f"HTTP/1.1 {status} Slow\r\nContent-Type: application/json\r\nCache-Control: {control}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        early = head + content[:1000] if len(content) > 100_000 else b""
        self.transport.write(early)
        asyncio.get_running_loop().call_later(float(seconds), self.transport.write, (head + content)[len(early):])

    def answer(self, target, control, user=None):
        said = {"target": target, "version": self.versions.get(target, 0), "user": user, "number": self.asked, "port": self.port, "padding": PADDING}
        if target.startswith("/list/"):
            said["items"] = [self.item(random.Random(f"{target} {number}")) for number in range(26)]
        content = json.dumps(said)
        self.transport.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: {control}\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode())


async def serve(port):
    Connection.port = port
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def run(port):
    asyncio.run(serve(port))
