"""The faults, as data: what the origin does, and what the client and the store must see.

With a stored copy (`copy`):
  copy     200 and the copy, byte for byte, within the soft deadline
  new      the answer is good, or comes on a second attempt: it goes out, and is stored where `after` says so
  passed   the answer is meant as it is: it is passed on, and the copy stays

Without one (`bare`):
  502, 503, 504   our own answer: one sentence, a Proxy-Status, within the hard deadline
  passed          as above: there is nothing better to give
  new             as above

Afterwards (`after`) the store must hold `old`, the copy as it was; `new`, what the fault's response brought; `first`, that only where there was no copy; `gone`, beside the copy, that
the upstream said that it is gone, which is what goes out then; nothing else, ever.
"""
import gzip
from dataclasses import dataclass

from origin import CLOSE, HANG, RESET, Drip, Flood

# What no client may ever get from the store.
JUNK = b'{"version":"junk","text":"' + b"j" * 900 + b'"}'


@dataclass(frozen=True)
class Fault:
    group: str
    name: str
    steps: tuple = ()
    copy: str = "copy"
    bare: str = "502"
    after: str = "old"
    # Where it happens: in an answer, in one on a kept connection only, at "accept", in the TLS "handshake", or "refused", "black hole".
    at: str = "answer"
    # How often; 0 for as long as it lasts.
    times: int = 0
    # Which time-out ends it where there is no copy: its name in `Play.deadlines`.
    deadline: str = "prompt"
    isTLS: bool = False
    certificate: str = "good"
    # Request fields of the client.
    fields: bytes = b""
    # Whether the good answers come with gzip.
    isCoded: bool = False
    # Response fields of the good answers before and after.
    validators: bytes = b""
    # Seconds until the first new answer, where the upstream asked for a pause.
    pause: float = 0
    # How the name of the upstream resolves, where it is not given by number: see `names.py`.
    resolving: str = ""
    # Status and content that are passed on, where they are not those of the first step.
    passed: tuple = ()
    # Fields that must not be in an answer from the store.
    unstored: tuple = ()
    # Who asks: everybody, a browser with its "preflight", or a user with a signed "token".
    asks: str = ""
    # Whose token is sent under the fault: see `tokens.py`.
    user: str = "refreshed"


def answer(content=JUNK, status=b"200 OK", fields=b"", type=b"application/json", length=None, version=b"HTTP/1.1"):
    """A whole answer with a length."""
    length = str(len(content)).encode() if length is None else length
    return (version + b" " + status + b"\r\nContent-Type: " + type + b"\r\nContent-Length: " + length + b"\r\n" + fields + b"\r\n" + content)


def head(*lines, status=b"200 OK"):
    """A head without any framing but what `lines` say."""
    return b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


CHUNKED = head(b"Transfer-Encoding: chunked")
HALF = JUNK[:400]
# A second answer where none is due: nobody may get it for the next request.
POISON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n\"poison\""


def chunk(content, size=None, end=b"\r\n"):
    return (b"%x" % len(content) if size is None else size) + b"\r\n" + content + end


def coded(content, coding=b"gzip", **more):
    return answer(content, fields=b"Content-Encoding: " + coding + b"\r\n", **more)


ZIPPED = gzip.compress(JUNK, mtime=0)
BOMB = gzip.compress(b"[" + b" " * (64 << 20) + b"]", mtime=0)
DAMAGED = ZIPPED[:-8] + bytes([ZIPPED[-8] ^ 1]) + ZIPPED[-7:]
ACCEPTS = b"Accept-Encoding: gzip\r\n"
PAGE = b"<!doctype html><title>Sign in to the network</title><p>Welcome to the hotel</p>"
DEEP = b"[" * 100_000 + b"]" * 100_000


def faults(group, *rows, **common):
    return [Fault(group, *row[:2], **{**common, **(row[2] if len(row) > 2 else {})}) for row in rows]


UNREACHABLE = faults(
    "connecting",
    ("connection refused", (), {"at": "refused"}),
    ("black hole: the queue is full", (), {"at": "black hole", "bare": "504", "deadline": "connect"}),
    ("reset when accepted", (RESET,), {"at": "accept"}),
    ("closed when accepted", (CLOSE,), {"at": "accept"}),
    ("garbage when accepted", (b"SSH-2.0-OpenSSH_9.2\r\n", CLOSE), {"at": "accept"}),
    ("the name does not resolve", (), {"resolving": "unknown"}),
    ("the name server does not answer", (), {"resolving": "silent", "bare": "504", "deadline": "connect"}),
    ("the name server is slow, and so is a good answer", (0.6, answer()),
     {"resolving": "slow", "copy": "passed", "bare": "passed", "after": "new", "passed": (200, JUNK)}),
)

TLS = faults(
    "TLS",
    ("TLS: handshake never answered", (HANG,), {"at": "handshake", "bare": "504", "deadline": "connect"}),
    ("TLS: stall within the handshake", (b"\x16\x03\x03\x00\x7a\x02\x00", HANG), {"at": "handshake", "bare": "504", "deadline": "connect"}),
    ("TLS: reset in the handshake", (RESET,), {"at": "handshake"}),
    ("TLS: closed in the handshake", (CLOSE,), {"at": "handshake"}),
    ("TLS: fatal alert", (b"\x15\x03\x03\x00\x02\x02\x28", CLOSE), {"at": "handshake"}),
    ("TLS: HTTP without TLS", (answer(), CLOSE), {"at": "handshake"}),
    ("TLS: certificate by no authority", (), {"at": "TLS", "certificate": "self-signed"}),
    ("TLS: certificate for another host", (), {"at": "TLS", "certificate": "another host"}),
    ("TLS: certificate expired", (), {"at": "TLS", "certificate": "expired"}),
    ("TLS: silence after the handshake", (HANG,), {"bare": "504", "deadline": "first byte"}),
    ("TLS: cut within the content", (answer(JUNK)[:-500], CLOSE)),
    ("TLS: reset within the content", (answer(JUNK)[:-500], RESET)),
    # Content that ends with the connection is whole only after TLS has said so (close_notify): a cut one is none.
    ("TLS: closed by its end: cut", (head() + HALF, CLOSE)),
    isTLS=True,
)

SILENCE = faults(
    "before and in the head",
    ("never answers", (HANG,), {"deadline": "first byte", "bare": "504"}),
    ("closed without an answer", (CLOSE,)),
    ("reset without an answer", (RESET,)),
    ("kept connection closed, new one good", (CLOSE,), {"at": "kept", "copy": "new", "bare": "new", "after": "new"}),
    ("kept connection reset, new one good", (RESET,), {"at": "kept", "copy": "new", "bare": "new", "after": "new"}),
    ("closed once, then good", (CLOSE,), {"times": 1, "copy": "new", "bare": "new", "after": "new"}),
    ("stall within the status line", (b"HTTP/1.1 20", HANG), {"deadline": "first byte", "bare": "504"}),
    ("stall within the head", (answer()[:40], HANG), {"deadline": "between bytes", "bare": "504"}),
    ("stall after the head", (answer()[:-len(JUNK)], HANG), {"deadline": "between bytes", "bare": "504"}),
    ("head drips", (Drip(answer()),), {"deadline": "total", "bare": "504"}),
    ("status line drips", (Drip(b"HTTP/1.1 200 " + b"O" * 200),), {"deadline": "total", "bare": "504"}),
    ("closed within the status line", (b"HTTP/1.1 20", CLOSE)),
    ("closed within the head", (answer()[:40], CLOSE)),
    ("reset within the head", (answer()[:40], RESET)),
    ("closed after the head", (answer()[:-len(JUNK)], CLOSE)),
    ("reset after the head", (answer()[:-len(JUNK)], RESET)),
    ("100 Continue, then silence", (b"HTTP/1.1 100 Continue\r\n\r\n", HANG), {"deadline": "first byte", "bare": "504"}),
)

HEADS = faults(
    "malformed heads",
    ("garbage", (b"\x00\xff\xfe this is not HTTP \x01\r\n\r\n", CLOSE)),
    ("a TLS record", (b"\x15\x03\x01\x00\x02\x02\x46", CLOSE)),
    ("HTTP/0.9", (JUNK, CLOSE)),
    ("only an empty line", (b"\r\n\r\n", CLOSE)),
    ("ICY 200 OK", (b"ICY 200 OK\r\n\r\n" + JUNK, CLOSE)),
    ("version HTTP/2.0 as text", (answer(version=b"HTTP/2.0"), CLOSE)),
    ("version HTTP/3.7", (answer(version=b"HTTP/3.7"), CLOSE)),
    ("version http/1.1 in small letters", (answer(version=b"http/1.1"), CLOSE)),
    ("version HTTP/1.1.1", (answer(version=b"HTTP/1.1.1"), CLOSE)),
    ("status of two digits", (answer(status=b"20 OK"), CLOSE)),
    ("status of four digits", (answer(status=b"2000 OK"), CLOSE)),
    ("status 099", (answer(status=b"099 Low"), CLOSE)),
    ("no status", (answer(status=b"OK"), CLOSE)),
    ("status behind two spaces", (answer(status=b" 200 OK"), CLOSE)),
    ("CR in the reason phrase", (answer(status=b"200 O\rX-Made-Up: yes"), CLOSE)),
    ("control character in the reason phrase", (answer(status=b"200 O\x07K"), CLOSE)),
    ("NUL in the reason phrase", (answer(status=b"200 O\x00K"), CLOSE)),
    ("a field of 200 KB", (answer(fields=b"X-Long: " + b"l" * 200_000 + b"\r\n"), CLOSE)),
    ("a head of 1 MB", (answer(fields=b"".join(b"X-%d: %s\r\n" % (i, b"v" * 1000) for i in range(1000))), CLOSE)),
    ("10,000 short fields", (answer(fields=b"a:b\r\n" * 10_000), CLOSE)),
    ("a head without end", (b"HTTP/1.1 200 OK\r\n", Flood(b"X-More: and more\r\n", 100_000))),
    ("NUL in a field value", (answer(fields=b"X-Nul: a\x00b\r\n"), CLOSE)),
    ("NUL in a field name", (answer(fields=b"X-N\x00l: a\r\n"), CLOSE)),
    ("CR in a field value", (answer(fields=b"X-CR: a\rSet-Cookie: b=c\r\n"), CLOSE)),
    ("control character in a field", (answer(fields=b"X-Bell: a\x07b\r\n"), CLOSE)),
    ("obs-fold", (answer(fields=b"X-Fold: a\r\n b\r\n"), CLOSE)),
    ("first field line folded", (b"HTTP/1.1 200 OK\r\n X: y\r\n" + answer()[17:], CLOSE)),
    ("no colon", (answer(fields=b"X-None\r\n"), CLOSE)),
    ("empty field name", (answer(fields=b": a\r\n"), CLOSE)),
    ("space within a field name", (answer(fields=b"X Space: a\r\n"), CLOSE)),
    ("letters beyond ASCII in a field name", (answer(fields="X-Größe: a\r\n".encode()), CLOSE)),
)

LENGTHS = faults(
    "lengths",
    ("cut by Content-Length", (answer(JUNK, length=b"%d" % (len(JUNK) + 100)), CLOSE)),
    ("differing Content-Lengths", (answer(fields=b"Content-Length: 10\r\n"), CLOSE)),
    ("Content-Length: a list that differs", (answer(length=b"%d, 10" % len(JUNK)), CLOSE)),
    ("Content-Length: negative", (answer(length=b"-1"), CLOSE)),
    ("Content-Length: with a sign", (answer(length=b"+%d" % len(JUNK)), CLOSE)),
    ("Content-Length: hexadecimal", (answer(length=b"0x%x" % len(JUNK)), CLOSE)),
    ("Content-Length: decimal point", (answer(length=b"%d.0" % len(JUNK)), CLOSE)),
    ("Content-Length: empty", (answer(length=b""), CLOSE)),
    ("Content-Length: two numbers", (answer(length=b"9 26"), CLOSE)),
    ("Content-Length: 2^63", (answer(length=b"9223372036854775808"), CLOSE)),
    ("Content-Length: 2^64 and as long as the content", (answer(length=b"%d" % (2 ** 64 + len(JUNK))), CLOSE)),
    ("Content-Length and chunks", (head(b"Content-Length: 10", b"Transfer-Encoding: chunked") + chunk(JUNK) + b"0\r\n\r\n", CLOSE)),
    ("chunks and Content-Length", (head(b"Transfer-Encoding: chunked", b"Content-Length: 10") + chunk(JUNK) + b"0\r\n\r\n", CLOSE)),
    ("bytes behind the content", (answer() + POISON,)),
    ("bytes behind the content, a moment later", (answer(), 0.02, POISON), {"copy": "passed", "bare": "passed", "after": "new"}),
    ("content behind Content-Length: 0", (answer(b"", length=b"0") + JUNK,)),
    ("length too short", (answer(JUNK, length=b"100"),)),
)

CHUNKS = faults(
    "chunks",
    ("chunk cut", (CHUNKED + chunk(JUNK, b"fff", b""), CLOSE)),
    ("chunk reset", (CHUNKED + chunk(JUNK, b"fff", b""), RESET)),
    ("last chunk missing", (CHUNKED + chunk(JUNK), CLOSE)),
    ("last chunk without its end", (CHUNKED + chunk(JUNK) + b"0\r\n", CLOSE)),
    ("chunk size: letters", (CHUNKED + chunk(HALF) + chunk(JUNK[400:], b"zz") + b"0\r\n\r\n", CLOSE)),
    ("chunk size: negative", (CHUNKED + chunk(JUNK, b"-10") + b"0\r\n\r\n", CLOSE)),
    ("chunk size: 0x", (CHUNKED + chunk(JUNK, b"0x%x" % len(JUNK)) + b"0\r\n\r\n", CLOSE)),
    ("chunk size: empty", (CHUNKED + chunk(JUNK, b"") + b"0\r\n\r\n", CLOSE)),
    ("chunk size: beyond 64 bits", (CHUNKED + chunk(JUNK, b"1" + b"0" * 16) + b"0\r\n\r\n", CLOSE)),
    ("chunk longer than its size", (CHUNKED + chunk(JUNK, b"10") + b"0\r\n\r\n", CLOSE)),
    ("chunk without its end", (CHUNKED + chunk(JUNK, end=b"") + b"0\r\n\r\n", CLOSE)),
    ("chunk extension without end", (CHUNKED + b"10;x=", Flood(b"y" * 1000, 10_000), CLOSE)),
    ("chunk stalls", (CHUNKED + chunk(HALF, b"fff", b""), HANG), {"deadline": "between bytes", "bare": "504"}),
    ("stall before the last chunk", (CHUNKED + chunk(JUNK), HANG), {"deadline": "between bytes", "bare": "504"}),
    ("NUL in a trailer", (CHUNKED + chunk(JUNK) + b"0\r\nX-Nul: a\x00b\r\n\r\n", CLOSE)),
    ("trailers without end", (CHUNKED + chunk(JUNK) + b"0\r\n", Flood(b"X-More: and more\r\n", 100_000), CLOSE)),
    ("bytes behind the last chunk", (CHUNKED + chunk(JUNK) + b"0\r\n\r\n" + POISON,)),
    ("chunked twice", (head(b"Transfer-Encoding: chunked, chunked") + chunk(JUNK) + b"0\r\n\r\n", CLOSE)),
    ("transfer coding gzip", (head(b"Transfer-Encoding: gzip, chunked") + chunk(ZIPPED) + b"0\r\n\r\n", CLOSE)),
    ("unknown transfer coding", (head(b"Transfer-Encoding: xchunked") + chunk(JUNK) + b"0\r\n\r\n", CLOSE)),
    ("transfer coding identity", (head(b"Transfer-Encoding: identity") + JUNK, CLOSE)),
    ("chunks in HTTP/1.0", (CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + chunk(JUNK) + b"0\r\n\r\n", CLOSE)),
)

CONTENT = faults(
    "within the content",
    ("stall within the content", (answer()[:-500], HANG), {"deadline": "between bytes", "bare": "504"}),
    ("content drips", (answer()[:-500], Drip(JUNK[-500:])), {"deadline": "total", "bare": "504"}),
    ("reset within the content", (answer()[:-500], RESET)),
    ("closed by its end: cut", (head() + HALF, CLOSE), {"bare": "passed 200", "passed": (200, HALF)}),
    ("closed by its end: a number", (head() + b"123", CLOSE), {"bare": "passed 200", "passed": (200, b"123")}),
    ("closed by its end: reset", (head() + HALF, RESET)),
    ("stall where only the end delimits", (head() + JUNK, HANG), {"deadline": "between bytes", "bare": "504"}),
)

PASSED = {"copy": "copy", "bare": "passed 200"}
REPLACED = faults(
    "content that is not what it says",
    ("no content", (answer(b""),)),
    ("white space only", (answer(b" \r\n "),)),
    ("JSON cut, length right", (answer(HALF),)),
    ("JSON cut, chunks right", (CHUNKED + chunk(HALF) + b"0\r\n\r\n",), {"passed": (200, HALF)}),
    ("JSON twice", (answer(JUNK + JUNK),)),
    ("text before JSON (a PHP warning)", (answer(b"<br />\n<b>Warning</b>: Undefined variable $x\n" + JUNK),)),
    ("text behind JSON", (answer(JUNK + b"<!-- 12 ms -->"),)),
    ("UTF-16", (answer(JUNK.decode().encode("utf-16")),)),
    # Readers may take it: it is passed on, and never takes the place of JSON by the letter.
    ("invalid UTF-8", (answer(b'{"name":"\xc3\x28"}'),), {"copy": "passed", "after": "first"}),
    ("surrogates in UTF-8", (answer(b'{"name":"\xed\xa0\x80"}'),), {"copy": "passed", "after": "first"}),
    ("ISO-8859-1", (answer(b'{"name":"caf\xe9"}', type=b"application/json; charset=iso-8859-1"),), {"copy": "passed", "after": "first"}),
    ("control character in a string", (answer(b'{"name":"a\x00b"}'),)),
    ("NaN", (answer(b'{"value":NaN}'),)),
    ("quotes of JavaScript", (answer(b"{'value':1}"),)),
    ("comma behind the last", (answer(b'{"value":1,}'),)),
    ("JSONP", (answer(b"callback(" + JUNK + b")"),)),
    # Nobody can tell: it is passed on, and takes nothing away.
    ("nested 100,000 deep", (answer(DEEP),), {"copy": "passed", "bare": "passed"}),
    ("nested 100,000 deep, and cut", (answer(DEEP[:-1]),)),
    ("captive portal: HTML with 200", (answer(PAGE, type=b"text/html; charset=utf-8"),)),
    ("captive portal: HTML called JSON", (answer(PAGE),)),
    ("captive portal: HTML without a type", (answer(PAGE).replace(b"Content-Type: application/json\r\n", b""),)),
    ("plain text with 200", (answer(b"OK", type=b"text/plain"),)),
    ("XML with 200", (answer(b"<error/>", type=b"application/xml"),)),
    ("octets with 200", (answer(JUNK, type=b"application/octet-stream"),)),
    ("a type that is none", (answer(JUNK, type=b"json"),)),
    ("two types", (answer(PAGE, fields=b"Content-Type: text/html\r\n"),)),
    **PASSED,
)

CODINGS = faults(
    "content codings",
    ("gzip cut, length right", (coded(ZIPPED[:-20]),)),
    ("gzip with a wrong checksum", (coded(DAMAGED),)),
    ("gzip that is none", (coded(b"\x1f\x8b" + b"z" * 200),)),
    ("gzip claimed, plain sent", (coded(JUNK),)),
    ("gzip of HTML called JSON", (coded(gzip.compress(PAGE, mtime=0)),)),
    ("gzip, bytes behind its end", (coded(ZIPPED + b"more"),)),
    ("gzip, zeros behind its end", (coded(ZIPPED + bytes(512)),),
     {"copy": "passed", "bare": "passed", "after": "new", "fields": b"", "passed": (200, JUNK)}),
    # Nobody unfolds it to tell.
    ("gzip bomb: 64 MB in 64 KB", (coded(BOMB),), {"copy": "passed", "bare": "passed"}),
    ("gzip twice", (coded(gzip.compress(ZIPPED, mtime=0), b"gzip, gzip"),)),
    ("unknown coding", (coded(JUNK, b"x-unknown"),)),
    ("coding that nobody asked for: br", (coded(b"\x8b\x01\x80junk\x03", b"br"),), {"passed": (200, b"junk")}),
    fields=ACCEPTS,
    **PASSED,
)


# Without these rows copies are stored coded and go out decoded: the good answers are long enough.
COMPRESSED = faults(
    "compressed copies",
    ("refused, the client takes gzip", (), {"at": "refused"}),
    ("black hole, the client takes gzip", (), {"at": "black hole", "bare": "504", "deadline": "connect"}),
    ("cut within the content, the client takes gzip", (answer(JUNK)[:-500], CLOSE)),
    ("never answers, the client takes gzip", (HANG,), {"deadline": "first byte", "bare": "504"}),
    ("refused, the copy came with gzip", (), {"at": "refused", "isCoded": True}),
    ("refused, the copy came with gzip, the client takes none", (), {"at": "refused", "isCoded": True, "fields": b""}),
    ("the next is cut, the copy came with gzip", (coded(ZIPPED)[:-20], CLOSE), {"isCoded": True}),
    ("the next is cut, the copy came with gzip, the client takes none", (coded(ZIPPED)[:-20], CLOSE), {"isCoded": True, "fields": b""}),
    ("the next has a wrong checksum, the copy came with gzip", (coded(DAMAGED),), {"isCoded": True, "bare": "passed"}),
    ("503, the copy came with gzip", (answer(JUNK, status=b"503 Busy"),), {"isCoded": True, "bare": "passed 503"}),
    fields=ACCEPTS,
)


def status(text, fields=b"", content=JUNK, **more):
    return (answer(content, status=text, fields=fields, **more),)


REFUSED = faults(
    "statuses: the upstream fails",
    ("500", status(b"500 Internal Server Error"), {"bare": "passed 500"}),
    ("500 as HTML", status(b"500 Oops", content=PAGE, type=b"text/html"), {"bare": "passed 500"}),
    ("502", status(b"502 Bad Gateway"), {"bare": "passed 502"}),
    ("503", status(b"503 Service Unavailable"), {"bare": "passed 503"}),
    ("503 with Retry-After", status(b"503 Service Unavailable", b"Retry-After: 1\r\n"), {"bare": "passed 503", "pause": 4}),
    ("503 that would be fresh for a day", status(b"503 Service Unavailable", b"Cache-Control: max-age=86400\r\n"), {"bare": "passed 503"}),
    ("503 without content, stalls", (b"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\n", HANG),
     {"bare": "passed 503 cut", "deadline": "between bytes"}),
    ("504", status(b"504 Gateway Timeout"), {"bare": "passed 504"}),
    ("429", status(b"429 Too Many Requests"), {"bare": "passed 429"}),
    ("429 with Retry-After", status(b"429 Too Many Requests", b"Retry-After: 1\r\n"), {"bare": "passed 429", "pause": 4}),
    ("206 that nobody asked for", status(b"206 Partial Content", b"Content-Range: bytes 0-926/2000\r\n")),
    ("304 that nobody asked for", (b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\r\n",)),
    ("304 for another tag", (b'HTTP/1.1 304 Not Modified\r\nETag: "other"\r\nCache-Control: max-age=600\r\n\r\n',),
     {"validators": b'ETag: "own"\r\n'}),
    ("101 that nobody asked for", (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", HANG)),
    ("100 a thousand times", (Flood(b"HTTP/1.1 100 Continue\r\n\r\n", 1000), answer())),
    ("102 a thousand times", (Flood(b"HTTP/1.1 102 Processing\r\n\r\n", 1000), answer())),
    ("103 a thousand times", (Flood(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 1000), answer())),
    ("102 every 100 ms without end", (*((b"HTTP/1.1 102 Processing\r\n\r\n", 0.1) * 18), HANG), {"deadline": "total", "bare": "504"}),
    ("login redirect", status(b"302 Found", b"Location: /login?next=here\r\n", PAGE, type=b"text/html"), {"bare": "passed 302"}),
    ("login redirect elsewhere", status(b"302 Found", b"Location: https://login.invalid/\r\n", b""), {"bare": "passed 302"}),
    ("login redirect: 303", status(b"303 See Other", b"Location: /login\r\n", b""), {"bare": "passed 303"}),
    ("captive portal: 307", status(b"307 Temporary Redirect", b"Location: http://portal.invalid/\r\n", b""), {"bare": "passed 307"}),
    ("520 of a content delivery network", status(b"520 Unknown Error", content=PAGE, type=b"text/html"), {"bare": "passed 520"}),
    ("captive portal: 511", status(b"511 Network Authentication Required", content=PAGE, type=b"text/html"), {"bare": "passed 511"}),
    ("status 999", status(b"999 Request denied"), {"bare": "passed 999"}),
)

MEANT = [
    Fault("answers that are meant", f"{text.decode()} is passed on, the copy stays", status(text, fields), copy="passed", bare="passed")
    for text, fields in (
        (b"400 Bad Request", b""), (b"401 Unauthorized", b'WWW-Authenticate: Basic realm="a"\r\n'), (b"403 Forbidden", b""),
        (b"408 Request Timeout", b""), (b"421 Misdirected Request", b""),
        (b"451 Unavailable For Legal Reasons", b""), (b"501 Not Implemented", b""), (b"301 Moved Permanently", b"Location: /elsewhere\r\n"),
        (b"308 Permanent Redirect", b"Location: /elsewhere\r\n"))
] + [
    Fault("answers that are meant", f"{text.decode()} is passed on, and remembered", status(text), copy="passed", bare="passed", after="gone")
    for text in (b"404 Not Found", b"410 Gone")
] + faults(
    "answers that are meant",
    ("204 where content was is passed on, the copy stays", (b"HTTP/1.1 204 No Content\r\n\r\n",), {}),
    ("205 where content was is passed on, the copy stays", (b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",), {}),
    ("302 to a signed URL is passed on, the copy stays",
     status(b"302 Found", b"Location: https://files.invalid/1?X-Amz-Signature=ab\r\n", b""), {}),
    ("303 to a result is passed on, the copy stays", status(b"303 See Other", b"Location: /results/1\r\n", b""), {}),
    ("404 as HTML is passed on, the copy stays", status(b"404 Not Found", content=PAGE, type=b"text/html"), {}),
    ("201 is passed on, the copy stays", status(b"201 Created"), {}),
    ("202 is passed on, the copy stays", status(b"202 Accepted"), {}),
    ("no-store is passed on, the copy stays", (answer(fields=b"Cache-Control: no-store\r\n"),), {}),
    ("private is passed on, the copy stays", (answer(fields=b"Cache-Control: private\r\n"),), {}),
    ("Vary: * is passed on, the copy stays", (answer(fields=b"Vary: *\r\n"),), {}),
    ("Vary: a list with *", (answer(fields=b"Vary: Accept, *\r\n"),), {}),
    ("too large to be held", (answer(b'"' + b"l" * 2_000_000 + b'"'),), {}),
    ("Set-Cookie reaches one client only", (answer(fields=b"Set-Cookie: session=secret\r\n"),),
     {"after": "new", "unstored": ("set-cookie",)}),
    ("fields named by Connection", (answer(fields=b"Connection: x-hop\r\nX-Hop: secret\r\n"),), {"after": "new", "unstored": ("x-hop",)}),
    ("byte order mark (RFC 8259 §8.1)", (answer(b"\xef\xbb\xbf" + JUNK),), {"after": "first"}),
    ("Cache-Control that is none", (answer(fields=b"Cache-Control: max-age=abc, =, ;;\r\n"),), {"after": "new"}),
    ("Content-Length twice the same", (answer(fields=b"Content-Length: %d\r\n" % len(JUNK)),), {"after": "new"}),
    ("closed by its end: whole JSON", (head() + JUNK, CLOSE), {"after": "new", "passed": (200, JUNK)}),
    copy="passed", bare="passed",
)

# Of each kind of failing one: how all of them fail is above.
FAILING = (
    ("connection refused", (), {"at": "refused"}),
    ("silence", (HANG,), {"bare": "504", "deadline": "first byte"}),
    ("reset", (RESET,), {}),
    ("cut within the head", (b"HTTP/1.1 200 OK\r\nAccess-Control-Al", CLOSE), {}),
    ("503", status(b"503 Service Unavailable"), {"bare": "passed 503"}),
    ("500", status(b"500 Internal Server Error"), {"bare": "passed 500"}),
    ("429", status(b"429 Too Many Requests"), {"bare": "passed 429"}),
    ("captive portal: HTML with 200", (answer(PAGE, type=b"text/html"),), {"bare": "passed 200"}),
    ("login redirect", status(b"302 Found", b"Location: /login\r\n", PAGE, type=b"text/html"), {"bare": "passed 302"}),
)

PREFLIGHTS = faults(
    "preflights",
    *((f"a preflight: {name}", steps, more) for name, steps, more in FAILING if name != "captive portal: HTML with 200"),
    # What is no leave is a refusal, and the upstream's to give: it is passed on, and takes nothing away.
    *((f"a preflight: {name} is passed on, the copy stays", steps, {"copy": "passed", "bare": "passed"}) for name, steps in (
        ("403", status(b"403 Forbidden")), ("200 without leave", (answer(b"{}"),)),
        ("200 for another origin", (answer(b"{}", fields=b"Access-Control-Allow-Origin: https://other.test\r\n"),)),
        ("200 without the method", (answer(b"{}", fields=b"Access-Control-Allow-Origin: https://app.test\r\n"),)))),
    asks="preflight",
)

TOKENS = faults(
    "tokens that were refreshed",
    *((f"a refreshed token: {name}", steps, more) for name, steps, more in FAILING),
    ("a refreshed token: JSON cut", (answer(HALF),), {"bare": "passed 200"}),
    ("a refreshed token: 401 is passed on, the copy stays", status(b"401 Unauthorized", b"WWW-Authenticate: Bearer\r\n"),
     {"copy": "passed", "bare": "passed"}),
    ("an expired token of the same user: connection refused", (), {"at": "refused", "user": "expired"}),
    ("an expired token of the same user: 503", status(b"503 Service Unavailable"), {"bare": "passed 503", "user": "expired"}),
    *((f"{who}: connection refused, and nothing of another's", (), {"at": "refused", "copy": "502", "user": user}) for who, user in (
        ("another user's token", "other"), ("a token with fewer rights", "fewer rights"), ("a forged token", "forged"),
        ("a token without a signature", "none"), ("a token of another audience", "another audience"), ("a token long expired", "long expired"))),
    ("another user's token: 503, and nothing of another's", status(b"503 Service Unavailable"),
     {"copy": "passed 503", "bare": "passed 503", "user": "other"}),
    asks="token",
)

ALL = UNREACHABLE + TLS + SILENCE + HEADS + LENGTHS + CHUNKS + CONTENT + REPLACED + CODINGS + COMPRESSED + REFUSED + MEANT + PREFLIGHTS + TOKENS
