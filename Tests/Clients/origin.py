"""An API that can be taken away: it keeps nothing secret about what it was asked, and speaks WebSocket where it is asked to."""

import base64
import gzip
import hashlib
import http.server
import json
import socket
import struct
import threading

USERS = '[{"id":1,"name":"Zoë"},{"id":2}]'.encode()
LONG = json.dumps(list(range(150_000))).encode()
TAG = '"1"'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def reply(self, content, *fields, status=200):
        is_coded = "gzip" in (self.headers.get("Accept-Encoding") or "")
        if is_coded:
            content = gzip.compress(content, 1)
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(content))), ("Vary", "Accept-Encoding"), *fields):
            self.send_header(name, value)
        if is_coded:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def setup(self):
        super().setup()
        self.server.connections.add(self.connection)

    def do_GET(self):
        if self.server.is_down:
            self.close_connection = True
        elif self.headers.get("Upgrade", "").lower() == "websocket":
            self.speak()
        elif self.path.startswith("/fresh"):
            self.reply(USERS, ("Cache-Control", "max-age=60"), ("ETag", TAG))
        elif self.path.startswith("/long"):
            self.reply(LONG, ("Cache-Control", "max-age=60"))
        elif self.path.startswith("/session"):
            self.reply(json.dumps({"cookie": self.headers.get("Cookie") or ""}).encode(), ("Set-Cookie", "s=1"))
        else:
            self.reply(USERS, ("ETag", TAG))

    do_HEAD = do_GET

    def do_POST(self):
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.is_down:
            self.close_connection = True
        else:
            self.reply(json.dumps({"got": len(content), "via": self.headers.get("Via")}).encode(), status=201)

    def speak(self):
        """Echoes texts until a close frame comes (RFC 6455)."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"),
                            ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        while message := read_message(self.rfile):
            kind, text = message
            self.wfile.write(pack_message(kind, text))
            if kind == 8:
                return

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # What a client cancels is cancelled here too.

    def log_message(self, *arguments):
        pass


def pack_message(kind, text, mask=None):
    size = len(text)
    head = bytes([0x80 | kind])
    bit = 0x80 if mask else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    return head + (mask + masked(text, mask) if mask else text)


def masked(text, mask):
    return (int.from_bytes(text, "big") ^ int.from_bytes((mask * (len(text) // 4 + 1))[:len(text)], "big")).to_bytes(len(text), "big")


def read_message(file):
    """A kind and a text; None at the end."""
    head = file.read(2)
    if len(head) < 2:
        return None
    size = head[1] & 0x7F
    if size == 126:
        size = struct.unpack(">H", file.read(2))[0]
    elif size == 127:
        size = struct.unpack(">Q", file.read(8))[0]
    mask = file.read(4) if head[1] & 0x80 else None
    text = file.read(size)
    return head[0] & 0xF, masked(text, mask) if mask else text


class Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.is_down, self.connections = False, set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def go(self, is_down):
        """Whoever is there is sent away, and whoever comes gets nothing."""
        self.is_down = is_down
        for connection in self.connections if is_down else ():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.connections.clear()
