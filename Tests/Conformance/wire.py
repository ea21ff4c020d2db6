"""One HTTP/2 connection to a server, frame by frame: what is sent is put together by hand, since no library sends what is wrong; what comes back is
read as RFC 9113 §4.1 has it. Field sections are coded by hpack."""

import socket
import ssl
import struct
import time

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
KINDS = ["DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"]
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)
CODES = ["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
         "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"]
PATIENCE = 2.0  # seconds that each thing may take


class Wrong(Exception):
    """What came is not what should have."""


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    return struct.pack(">I", len(payload) if length is None else length)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def code_name(code):
    return CODES[code] if code < len(CODES) else f"code {code}"


class Frame:
    def __init__(self, kind, flags, stream, payload):
        self.kind, self.flags, self.stream, self.payload = kind, flags, stream & 0x7FFFFFFF, payload

    def number(self, offset):
        return struct.unpack_from(">I", self.payload, offset)[0]

    def __str__(self):
        name = KINDS[self.kind] if self.kind < len(KINDS) else f"kind {self.kind}"
        if self.kind == GOAWAY:
            return f"GOAWAY {code_name(self.number(4))}"
        if self.kind == RST_STREAM:
            return f"RST_STREAM {code_name(self.number(0))} on {self.stream}"
        return f"{name} on {self.stream}, flags {self.flags:#x}, {len(self.payload)} bytes"


def connect(server):
    """A socket to the server, with TLS and h2 agreed where its door is that."""
    plain = socket.create_connection(server.address, timeout=PATIENCE)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not server.is_tls:
        return plain
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    secured = context.wrap_socket(plain, server_hostname=server.name)
    if secured.selected_alpn_protocol() != "h2":
        raise Wrong(f"ALPN chose {secured.selected_alpn_protocol()}")
    return secured


class Connection:
    def __init__(self, server, settings=(), begins=True):
        self.server, self.socket = server, connect(server)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.received, self.seen, self.peer, self.has_settings = b"", [], {}, False
        if begins:
            self.begin(settings)

    def close(self):
        self.socket.close()

    # What is sent.

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # What the server has said before it closed is still to be read.

    def begin(self, settings=()):
        """The preface and the exchange of settings (RFC 9113 §3.4)."""
        self.send(PREFACE + frame(SETTINGS, payload=self.settings_payload(settings)))
        acknowledged = False
        while not (acknowledged and self.has_settings):
            came = self.next()
            if came is None:
                raise Wrong("the connection ended before settings were exchanged")
            if came.kind == SETTINGS and came.flags & ACK:
                acknowledged = True
        self.seen.clear()

    @staticmethod
    def settings_payload(settings):
        return b"".join(struct.pack(">HI", name, value) for name, value in settings)

    def frame(self, *arguments, **more):
        self.send(frame(*arguments, **more))

    def settings(self, *settings):
        self.frame(SETTINGS, 0, 0, self.settings_payload(settings))

    def window(self, stream, increment):
        self.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))

    def reset(self, stream, code=8):
        self.frame(RST_STREAM, 0, stream, struct.pack(">I", code))

    def data(self, stream, content=b"", ends=False):
        self.frame(DATA, END_STREAM if ends else 0, stream, content)

    def fields(self, *more, method="GET", without=(), path=None):
        """The usual request with fields behind it."""
        usual = [(":method", method), (":scheme", "https" if self.server.is_tls else "http"), (":path", path or self.server.path),
                 (":authority", self.server.authority)]
        return [field for field in usual if field[0] not in without] + list(more)

    def section(self, fields=None, huffman=True):
        return self.encoder.encode(self.fields() if fields is None else fields, huffman=huffman)

    def request(self, stream, fields=None, ends=True, ends_headers=True):
        flags = (END_STREAM if ends else 0) | (END_HEADERS if ends_headers else 0)
        self.frame(HEADERS, flags, stream, self.section(fields))

    def post(self, stream, *more, ends=False):
        self.request(stream, self.fields(*more, method="POST"), ends=ends)

    # What comes.

    def next(self, patience=PATIENCE):
        """The next frame; None where the connection has ended. Settings and pings are acknowledged, as every client does."""
        until = time.monotonic() + patience
        while True:
            came = self.take()
            if came:
                return came
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.socket.settimeout(left)
            try:
                more = self.socket.recv(65536)
            except (socket.timeout, TimeoutError):
                raise TimeoutError from None
            except OSError:
                return None
            if not more:
                return None
            self.received += more

    def take(self):
        if len(self.received) < 9:
            return None
        length = int.from_bytes(self.received[:3], "big")
        if len(self.received) < 9 + length:
            return None
        kind, flags, stream = struct.unpack_from(">BBI", self.received, 3)
        came = Frame(kind, flags, stream, self.received[9:9 + length])
        self.received = self.received[9 + length:]
        self.note(came)
        return came

    def note(self, came):
        if came.kind != DATA or len(self.seen) < 20:
            self.seen.append(str(came))
        if came.kind == SETTINGS and not came.flags & ACK:
            self.has_settings = True
            self.peer.update(struct.iter_unpack(">HI", came.payload))
            self.frame(SETTINGS, ACK)
        elif came.kind == PING and not came.flags & ACK:
            self.frame(PING, ACK, 0, came.payload)
        elif came.kind == HEADERS:
            came.fields = self.decoder.decode(came.payload)

    def wait(self, fits, what):
        """The first frame that fits."""
        try:
            while came := self.next():
                if fits(came):
                    return came
        except TimeoutError:
            raise Wrong(f"{what} was awaited; in {PATIENCE:.0f} s came: {'; '.join(self.seen) or 'nothing'}") from None
        raise Wrong(f"{what} was awaited; the connection ended after: {'; '.join(self.seen) or 'nothing'}")

    # What has to come.

    def ends_with(self, *codes):
        """An error of the connection: GOAWAY with one of the codes, then the end (RFC 9113 §5.4.1)."""
        names = " or ".join(CODES[code] for code in codes)
        end = self.wait(lambda came: came.kind == GOAWAY, f"GOAWAY {names}")
        if end.number(4) not in codes:
            raise Wrong(f"GOAWAY {names} was awaited, and not {code_name(end.number(4))}")
        self.closes()

    def closes(self):
        try:
            while self.next():
                pass
        except TimeoutError:
            raise Wrong(f"the connection's end was awaited after: {'; '.join(self.seen)}") from None

    def resets(self, stream, *codes):
        """An error of a stream: RST_STREAM, or the connection ends for it, which RFC 9113 §5.4.2 leaves to the server."""
        names = " or ".join(CODES[code] for code in codes)

        def is_end(came):
            return came.kind == GOAWAY or came.kind == RST_STREAM and came.stream == stream

        end = self.wait(is_end, f"RST_STREAM {names}")
        code = end.number(4 if end.kind == GOAWAY else 0)
        if code not in codes:
            raise Wrong(f"{names} was awaited, and not {end}")

    def responds(self, stream, status=None, content=None):
        """A whole response. Returns its status, fields and content."""
        head, body = None, b""
        while True:
            came = self.wait(lambda came: came.stream == stream and came.kind in (HEADERS, DATA, RST_STREAM) or came.kind == GOAWAY, "a response")
            if came.kind == DATA:
                body += came.payload
                if came.payload:
                    self.window(0, len(came.payload))
            elif came.kind == HEADERS:
                found = dict(came.fields)
                head = found if ":status" in found and not found[":status"].startswith("1") else head
            else:
                raise Wrong(f"a response was awaited, and not {came}")
            if came.flags & END_STREAM:
                break
        if status is not None and head[":status"] != str(status):
            raise Wrong(f"status {status} was awaited, and not {head[':status']}: {body[:80]!r}")
        if content is not None and body != content:
            raise Wrong(f"content {content!r} was awaited, and not {body[:80]!r}")
        return head[":status"], head, body

    def goes_on(self):
        """Nothing has happened: a ping is acknowledged, and no GOAWAY has come."""
        self.frame(PING, 0, 0, b"is there")
        came = self.wait(lambda came: came.kind == GOAWAY or came.kind == PING and came.payload == b"is there", "a ping's acknowledgement")
        if came.kind == GOAWAY or not came.flags & ACK:
            raise Wrong(f"a ping's acknowledgement was awaited, and not {came}")


PROTOCOL, INTERNAL, FLOW, TIMEOUT, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION = 1, 2, 3, 4, 5, 6, 7, 8, 9
CALM = 11

CASES = []


def case(section, sentence):
    """Registers a case: a function of a connection on which settings have been exchanged."""
    def register(function):
        CASES.append((section, sentence, function, True))
        return function
    return register


def bare_case(section, sentence):
    """The same of a connection on which nothing has been sent."""
    def register(function):
        CASES.append((section, sentence, function, False))
        return function
    return register
