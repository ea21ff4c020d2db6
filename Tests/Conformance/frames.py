"""How a connection begins, what every kind of frame does, and what is ignored (RFC 9113 §3.4, §4, §6, §8: what has to work)."""

import struct

from wire import *  # noqa: F403


@bare_case("3.4", "a client's preface is answered by settings")
def preface(c):
    c.begin()
    c.goes_on()


@bare_case("3.4", "settings are the server's first frame")
def first_frame(c):
    c.send(PREFACE + frame(SETTINGS))
    first = c.next()
    if first is None or first.kind != SETTINGS or first.flags & ACK:
        raise Wrong(f"SETTINGS was awaited, and not {first}")


@bare_case("3.4", "requests may follow the preface before the server has said a word")
def no_wait(c):
    c.send(PREFACE + frame(SETTINGS))
    c.request(1)
    c.responds(1, 200)


@bare_case("3.4", "what is no preface ends the connection")
def no_preface(c):
    c.send(b"INVALID CONNECTION PREFACE\r\n\r\n")
    c.received = b""
    until_end(c)


@bare_case("3.4", "a preface with another ending ends the connection")
def broken_preface(c):
    c.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + frame(SETTINGS))
    until_end(c)


def until_end(c):
    """What is said before is HTTP/1.1's, or a GOAWAY."""
    c.socket.settimeout(PATIENCE)
    try:
        while c.socket.recv(65536):
            pass
    except TimeoutError:
        raise Wrong("the connection's end was awaited") from None
    except OSError:
        pass


@bare_case("3.4", "the first frame must be SETTINGS")
def ping_first(c):
    c.send(PREFACE + frame(PING, 0, 0, b"12345678"))
    c.ends_with(PROTOCOL)


@bare_case("3.4", "and so must a request not be")
def request_first(c):
    c.send(PREFACE)
    c.request(1)
    c.ends_with(PROTOCOL)


@case("4.1", "a frame of a kind that is not known is ignored")
def unknown_kind(c):
    c.frame(0x16, 0, 0, bytes(8))
    c.goes_on()


@case("4.1", "also on a stream")
def unknown_kind_on_stream(c):
    c.post(1)
    c.frame(0xFE, 0xFF, 1, b"whatever")
    c.data(1, b"x", ends=True)
    c.responds(1)


@case("4.1", "flags that are not defined are ignored")
def unknown_flag(c):
    c.frame(PING, 0x16, 0, bytes(8))
    c.wait(lambda came: came.kind == PING and came.flags & ACK, "a ping's acknowledgement")


@case("4.1", "the reserved bit is ignored")
def reserved_bit(c):
    c.frame(PING, 0, 0x80000000, bytes(8))
    c.wait(lambda came: came.kind == PING and came.flags & ACK, "a ping's acknowledgement")


@case("4.2", "content of 16,384 bytes is taken")
def largest_data(c):
    c.post(1)
    c.data(1, bytes(16384), ends=True)
    c.responds(1)


@case("4.2", "content of more ends its stream")
def too_large_data(c):
    c.post(1)
    c.data(1, bytes(16385), ends=True)
    c.resets(1, SIZE)


@case("4.2", "a field section of more ends the connection")
def too_large_headers(c):
    section = c.section(c.fields(*[(f"x-dummy{number}", "x" * 2000) for number in range(10)]), huffman=False)
    c.frame(HEADERS, END_STREAM | END_HEADERS, 1, section)
    c.ends_with(SIZE)


@case("4.2", "settings of more end the connection")
def too_large_settings(c):
    c.frame(SETTINGS, 0, 0, struct.pack(">HI", 0xFFFF, 1) * 2731)
    c.ends_with(SIZE)


@case("4.2", "a frame that is not known and longer ends the connection")
def too_large_unknown(c):
    c.frame(0x16, 0, 0, bytes(16385))
    c.ends_with(SIZE)


@case("4.3", "a field section that cannot be decoded ends the connection")
def broken_section(c):
    c.frame(HEADERS, END_STREAM | END_HEADERS, 1, b"\x40\xff\xff")
    c.ends_with(COMPRESSION)


@case("4.3", "nothing comes between the parts of a field section: PRIORITY")
def priority_between(c):
    c.request(1, ends_headers=False)
    c.frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 255))
    c.ends_with(PROTOCOL)


@case("4.3", "nothing comes between the parts of a field section: another stream's HEADERS")
def headers_between(c):
    c.request(1, ends_headers=False)
    c.request(3)
    c.ends_with(PROTOCOL)


@case("4.3", "nothing comes between the parts of a field section: DATA")
def data_between(c):
    c.request(1, ends_headers=False)
    c.data(1, b"x")
    c.ends_with(PROTOCOL)


@case("5.5", "a setting that is not known is ignored, and acknowledged")
def unknown_setting(c):
    c.settings((0xFF, 1))
    c.wait(lambda came: came.kind == SETTINGS and came.flags & ACK, "SETTINGS with ACK")


@case("5.5", "a frame that is not known does not come between the parts of a field section")
def unknown_between(c):
    c.request(1, ends_headers=False)
    c.frame(0x16, 0, 0, bytes(8))
    c.ends_with(PROTOCOL)


@case("6.1", "content in one frame")
def data(c):
    c.post(1)
    c.data(1, b"test", ends=True)
    c.responds(1)


@case("6.1", "content in several frames")
def data_frames(c):
    c.post(1)
    c.data(1, b"test")
    c.data(1, b"test", ends=True)
    c.responds(1)


@case("6.1", "content with padding")
def padded_data(c):
    c.post(1, ("content-length", "4"))
    c.frame(DATA, END_STREAM | PADDED, 1, b"\x06test" + bytes(6))
    c.responds(1)


@case("6.1", "padding that is all there is")
def all_padding(c):
    c.post(1, ("content-length", "0"))
    c.frame(DATA, END_STREAM | PADDED, 1, b"\x05" + bytes(5))
    c.responds(1)


@case("6.1", "content that ends with an empty frame")
def empty_end(c):
    c.post(1, ("content-length", "4"))
    c.data(1, b"test")
    c.data(1, b"", ends=True)
    c.responds(1)


@case("6.2", "a head in one frame")
def head(c):
    c.request(1)
    c.responds(1)


@case("6.2", "a head with padding")
def padded_head(c):
    c.frame(HEADERS, END_STREAM | END_HEADERS | PADDED, 1, b"\x06" + c.section() + bytes(6))
    c.responds(1)


@case("6.2", "a head with a priority")
def head_with_priority(c):
    c.frame(HEADERS, END_STREAM | END_HEADERS | PRIORITIZED, 1, struct.pack(">IB", 0, 255) + c.section())
    c.responds(1)


@case("6.2", "a head with both")
def head_with_both(c):
    c.frame(HEADERS, END_STREAM | END_HEADERS | PRIORITIZED | PADDED, 1, b"\x02" + struct.pack(">IB", 0, 1) + c.section() + bytes(2))
    c.responds(1)


def priority_case(sentence, dependency, weight):
    @case("6.3", sentence)
    def check(c):
        c.frame(PRIORITY, 0, 1, struct.pack(">IB", dependency, weight))
        c.request(1)
        c.responds(1)


priority_case("a priority of the least weight", 0, 0)
priority_case("a priority of the greatest weight", 0, 255)
priority_case("a priority on another stream", 3, 255)
priority_case("an exclusive priority", 0x80000003, 255)


@case("6.3", "a priority of an idle stream, then a head of a lower one")
def priority_of_later(c):
    c.frame(PRIORITY, 0, 5, struct.pack(">IB", 0, 255))
    c.request(3)
    c.responds(3)


@case("6.4", "a reset of a stream is all that happens")
def reset(c):
    c.post(1)
    c.reset(1)
    c.goes_on()
    c.request(3)
    c.responds(3)


@case("6.5", "settings are acknowledged")
def settings(c):
    c.settings((HEADER_TABLE_SIZE, 1024), (MAX_CONCURRENT_STREAMS, 10), (MAX_HEADER_LIST_SIZE, 65536))
    c.wait(lambda came: came.kind == SETTINGS and came.flags & ACK, "SETTINGS with ACK")


@case("6.7", "a ping is acknowledged with what was in it")
def ping(c):
    c.frame(PING, 0, 0, b"h2 pings")
    c.wait(lambda came: came.kind == PING and came.flags & ACK and came.payload == b"h2 pings", "the same ping with ACK")


@case("6.7", "a ping that nobody asked for is ignored")
def unasked_ping(c):
    c.frame(PING, ACK, 0, b"invalid!")
    c.frame(PING, 0, 0, b"the next")
    came = c.wait(lambda came: came.kind == PING, "a ping's acknowledgement")
    if came.payload != b"the next":
        raise Wrong(f"an acknowledgement was answered with {came.payload!r}")


@case("6.8", "a client's GOAWAY is no error: what is under way is responded to")
def goaway(c):
    c.request(1)
    c.frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0))
    c.responds(1)


def ends_or_goes_on(c):
    """A client that goes is let go, or is still heard."""
    c.frame(PING, 0, 0, b"12345678")
    try:
        while came := c.next():
            if came.kind == PING and came.flags & ACK:
                return
            if came.kind == GOAWAY and came.number(4) != 0:
                raise Wrong(f"no error was awaited, and not {came}")
    except TimeoutError:
        raise Wrong("a ping's acknowledgement or the end was awaited") from None


@case("6.8", "with nothing under way the connection ends or goes on")
def goaway_alone(c):
    c.frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0))
    ends_or_goes_on(c)


@case("6.8", "words may follow in it")
def goaway_words(c):
    c.frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0) + b"good bye")
    ends_or_goes_on(c)


@case("6.9", "a window for all")
def window_of_all(c):
    c.window(0, 1)
    c.request(1)
    c.responds(1)


@case("6.9", "a window for a stream")
def window_of_stream(c):
    c.request(1)
    c.window(1, 1)
    c.responds(1)


@case("6.10", "a head in two parts")
def continuation(c):
    section = c.section()
    c.frame(HEADERS, END_STREAM, 1, section[:3])
    c.frame(CONTINUATION, END_HEADERS, 1, section[3:])
    c.responds(1)


@case("6.10", "a head in several parts, some of them empty")
def continuations(c):
    section = c.section(c.fields(("x-dummy", "x" * 20)), huffman=False)
    c.frame(HEADERS, END_STREAM, 1, b"")
    for place in range(0, len(section), 40):
        c.frame(CONTINUATION, 0, 1, section[place:place + 40])
    c.frame(CONTINUATION, END_HEADERS, 1)
    c.responds(1)


@case("7", "GOAWAY for a reason that is not known")
def goaway_unknown(c):
    c.frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0xFF))
    ends_or_goes_on(c)


@case("7", "a reset for a reason that is not known")
def reset_unknown(c):
    c.post(1)
    c.reset(1, 0xFF)
    c.goes_on()


@case("8.1", "GET has a response")
def get(c):
    c.request(1)
    c.responds(1, 200)


@case("8.1", "HEAD has no content")
def head_method(c):
    c.request(1, c.fields(method="HEAD"))
    _, _, body = c.responds(1)
    if body:
        raise Wrong(f"no content was awaited, and not {body[:80]!r}")


@case("8.1", "POST has a response")
def post(c):
    c.post(1)
    c.data(1, b"test", ends=True)
    c.responds(1)


@case("8.1", "trailers end a request")
def trailers(c):
    c.post(1, ("trailer", "x-test"))
    c.data(1, b"test")
    c.request(1, [("x-test", "ok")])
    c.responds(1)


@case("8.1", "many requests at once have each its response")
def many(c):
    streams = range(1, 60, 2)
    for stream in streams:
        c.request(stream)
    missing = set(streams)
    while missing:
        came = c.wait(lambda came: came.flags & END_STREAM and came.kind in (DATA, HEADERS) or came.kind in (RST_STREAM, GOAWAY), "a response")
        if came.kind in (RST_STREAM, GOAWAY):
            raise Wrong(f"responses were awaited, and not {came}")
        missing.discard(came.stream)
