"""The upstream of the trials here: small JSON that says which version of it this is, whose, and its number; and writes that take their time (POST) or not (PUT)."""
import asyncio
import json
import random
import re

SLOWEST_WRITE = 0.3
PADDING = "x" * 150


class Connection(asyncio.Protocol):
    """Pipelined requests without content are answered in their order."""
    versions, asked = {}, 0

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
            elif target == "/asked":
                self.answer(str(Connection.asked), "no-store")
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
