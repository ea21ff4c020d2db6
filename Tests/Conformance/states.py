"""Streams and their states, and what of each kind of frame is an error (RFC 9113 §5, §6)."""

import struct

from wire import *  # noqa: F403

PRIORITY_OF_ALL = struct.pack(">IB", 0, 255)


def error(section, sentence, act, *codes, ends="connection"):
    """What `act` sends is an error of the connection, or of stream 1."""
    @case(section, sentence)
    def check(c):
        act(c)
        c.ends_with(*codes) if ends == "connection" else c.resets(1, *codes)


def stream_error(section, sentence, act, *codes):
    error(section, sentence, act, *codes, ends="stream")


# §5.1

error("5.1", "idle: DATA", lambda c: c.data(1, b"test", ends=True), PROTOCOL)
error("5.1", "idle: RST_STREAM", lambda c: c.reset(1), PROTOCOL)
error("5.1", "idle: WINDOW_UPDATE", lambda c: c.window(1, 100), PROTOCOL)
error("5.1", "idle: CONTINUATION", lambda c: c.frame(CONTINUATION, END_HEADERS, 1, c.section()), PROTOCOL)
error("5.1", "idle: DATA of a server's stream", lambda c: c.data(2, b"test", ends=True), PROTOCOL)


@case("5.1", "idle: PRIORITY is no error")
def idle_priority(c):
    c.frame(PRIORITY, 0, 1, PRIORITY_OF_ALL)
    c.goes_on()


def half_closed(c):
    """A stream whose request has ended and whose response waits for its window."""
    c.settings((INITIAL_WINDOW_SIZE, 0))
    c.request(1)


@case("5.1", "half-closed: a window lets the response go on")
def half_closed_window(c):
    half_closed(c)
    c.wait(lambda came: came.kind == HEADERS, "a head")
    c.window(1, 100)
    c.wait(lambda came: came.kind == DATA and came.stream == 1, "DATA")


@case("5.1", "half-closed: PRIORITY is no error")
def half_closed_priority(c):
    half_closed(c)
    c.frame(PRIORITY, 0, 1, PRIORITY_OF_ALL)
    c.window(1, 100)
    c.responds(1)


@case("5.1", "half-closed: RST_STREAM is no error")
def half_closed_reset(c):
    half_closed(c)
    c.reset(1)
    c.goes_on()


def on_half_closed(act):
    def run(c):
        half_closed(c)
        act(c)
    return run


stream_error("5.1", "half-closed: DATA", on_half_closed(lambda c: c.data(1, b"test", ends=True)), CLOSED)
stream_error("5.1", "half-closed: HEADERS", on_half_closed(lambda c: c.request(1)), CLOSED)
error("5.1", "half-closed: CONTINUATION", on_half_closed(lambda c: c.frame(CONTINUATION, END_HEADERS, 1, c.section())), CLOSED, PROTOCOL)


def after_reset(act):
    def run(c):
        c.post(1)
        c.reset(1)
        act(c)
    return run


stream_error("5.1", "closed by a reset: DATA", after_reset(lambda c: c.data(1, b"test", ends=True)), CLOSED)


@case("5.1", "closed by a reset in the same bytes: DATA")
def data_with_reset(c):
    c.post(1)
    c.goes_on()
    c.send(frame(RST_STREAM, 0, 1, struct.pack(">I", 8)) + frame(DATA, END_STREAM, 1, b"test"))
    c.resets(1, CLOSED)


stream_error("5.1", "closed by a reset: HEADERS", after_reset(lambda c: c.request(1)), CLOSED)
error("5.1", "closed by a reset: CONTINUATION", after_reset(lambda c: c.frame(CONTINUATION, END_HEADERS, 1, c.section())), CLOSED, PROTOCOL)


def after_response(act):
    def run(c):
        c.request(1)
        c.responds(1)
        act(c)
    return run


stream_error("5.1", "closed: DATA", after_response(lambda c: c.data(1, b"test", ends=True)), CLOSED)
stream_error("5.1", "closed: HEADERS", after_response(lambda c: c.request(1)), CLOSED)
error("5.1", "closed: CONTINUATION", after_response(lambda c: c.frame(CONTINUATION, END_HEADERS, 1, c.section())), CLOSED, PROTOCOL)


def ignored(section, sentence, act):
    @case(section, sentence)
    def check(c):
        act(c)
        c.goes_on()


ignored("5.1", "closed: PRIORITY is no error", after_response(lambda c: c.frame(PRIORITY, 0, 1, PRIORITY_OF_ALL)))
ignored("5.1", "closed: WINDOW_UPDATE is no error", after_response(lambda c: c.window(1, 1)))
ignored("5.1", "closed: RST_STREAM is no error", after_response(lambda c: c.reset(1)))

# §5.1.1, §5.1.2

error("5.1.1", "a client's streams have odd numbers", lambda c: c.request(2), PROTOCOL)


@case("5.1.1", "each has a higher number than the one before")
def lower_number(c):
    c.request(5)
    c.request(3)
    c.ends_with(PROTOCOL)


@case("5.1.1", "the highest number is good")
def highest_number(c):
    c.request(0x7FFFFFFF)
    c.responds(0x7FFFFFFF)


@case("5.1.2", "more streams than the server takes")
def too_many(c):
    limit = c.peer.get(MAX_CONCURRENT_STREAMS)
    if limit is None:
        raise Wrong("SETTINGS_MAX_CONCURRENT_STREAMS was awaited")
    c.settings((INITIAL_WINDOW_SIZE, 0))
    for number in range(limit + 1):
        c.request(2 * number + 1)
    c.resets(2 * limit + 1, PROTOCOL, REFUSED)


# §5.3.1 (RFC 7540), §5.4.1

stream_error("5.3.1", "a head does not depend on itself", lambda c: c.frame(
    HEADERS, END_STREAM | END_HEADERS | PRIORITIZED, 1, struct.pack(">IB", 1, 255) + c.section()), PROTOCOL)
error("5.3.1", "nor does a stream later", lambda c: c.frame(PRIORITY, 0, 2, struct.pack(">IB", 2, 255)), PROTOCOL)


@case("5.4.1", "after an error the connection closes")
def error_closes(c):
    c.frame(PING, 0, 0, b"123456")
    c.closes()


@case("5.4.1", "and GOAWAY names the last stream that was taken")
def error_names_stream(c):
    c.request(1)
    c.responds(1)
    c.frame(PING, 0, 0, b"123456")
    end = c.wait(lambda came: came.kind == GOAWAY, "GOAWAY")
    if end.number(0) != 1 or end.number(4) != SIZE:
        raise Wrong(f"the last stream 1 was awaited, and not {end.number(0)} with {code_name(end.number(4))}")


# §6.1 to §6.4

error("6.1", "DATA without a stream", lambda c: c.data(0, b"test", ends=True), PROTOCOL)
stream_error("6.1", "DATA on a stream that is not open", on_half_closed(lambda c: c.data(1, b"test", ends=True)), CLOSED)


def open_and(act):
    def run(c):
        c.post(1)
        act(c)
    return run


error("6.1", "padding longer than its frame", open_and(lambda c: c.frame(DATA, END_STREAM | PADDED, 1, b"\x06test")), PROTOCOL)
error("6.1", "padding as long as its frame", open_and(lambda c: c.frame(DATA, END_STREAM | PADDED, 1, b"\x05test")), PROTOCOL)
error("6.1", "padding whose length is missing", open_and(lambda c: c.frame(DATA, END_STREAM | PADDED, 1)), SIZE, PROTOCOL)
error("6.2", "HEADERS without a stream", lambda c: c.request(0), PROTOCOL)
error("6.2", "padding longer than a head", lambda c: c.frame(
    HEADERS, END_STREAM | END_HEADERS | PADDED, 1, bytes([len(c.section()) + 5]) + c.section()), PROTOCOL)
error("6.2", "a head too short for its priority", lambda c: c.frame(
    HEADERS, END_STREAM | END_HEADERS | PRIORITIZED, 1, b"\0\0\0"), SIZE, PROTOCOL)
error("6.3", "PRIORITY without a stream", lambda c: c.frame(PRIORITY, 0, 0, PRIORITY_OF_ALL), PROTOCOL)
stream_error("6.3", "PRIORITY of another length", lambda c: c.frame(PRIORITY, 0, 1, b"\0\0\0\1"), SIZE)
error("6.4", "RST_STREAM without a stream", lambda c: c.reset(0), PROTOCOL)
error("6.4", "RST_STREAM of an idle stream", lambda c: c.reset(3), PROTOCOL)
error("6.4", "RST_STREAM of another length", open_and(lambda c: c.frame(RST_STREAM, 0, 1, b"\0\0\0")), SIZE)

# §6.5


def one_setting(name, value):
    return lambda c: c.settings((name, value))


error("6.5", "SETTINGS with ACK and settings", lambda c: c.frame(SETTINGS, ACK, 0, struct.pack(">HI", 3, 1)), SIZE)
error("6.5", "SETTINGS of a stream", lambda c: c.frame(SETTINGS, 0, 1, struct.pack(">HI", 3, 1)), PROTOCOL)
error("6.5", "SETTINGS of another length", lambda c: c.frame(SETTINGS, 0, 0, b"\0\3\0"), SIZE)
error("6.5.2", "ENABLE_PUSH is 0 or 1", one_setting(ENABLE_PUSH, 2), PROTOCOL)
error("6.5.2", "INITIAL_WINDOW_SIZE above 2^31-1", one_setting(INITIAL_WINDOW_SIZE, 0x80000000), FLOW)
error("6.5.2", "MAX_FRAME_SIZE below 16,384", one_setting(MAX_FRAME_SIZE, 16383), PROTOCOL)
error("6.5.2", "MAX_FRAME_SIZE above 16,777,215", one_setting(MAX_FRAME_SIZE, 1 << 24), PROTOCOL)
ignored("6.5.2", "a setting that is not known is ignored", one_setting(0xFF, 1))


@case("6.5.3", "of two values in one frame the last counts")
def last_value(c):
    c.settings((INITIAL_WINDOW_SIZE, 100), (INITIAL_WINDOW_SIZE, 1))
    c.request(1)
    came = c.wait(lambda came: came.kind == DATA, "DATA")
    if len(came.payload) != 1:
        raise Wrong(f"DATA of 1 byte was awaited, and not of {len(came.payload)}")


@case("6.5.3", "settings are acknowledged each time")
def each_acknowledged(c):
    for number in range(3):
        c.settings((MAX_CONCURRENT_STREAMS, 100 + number))
        c.wait(lambda came: came.kind == SETTINGS and came.flags & ACK, "SETTINGS with ACK")


# §6.6 to §6.8

error("6.6", "a client promises nothing", open_and(lambda c: c.frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 3) + c.section())), PROTOCOL)
error("6.7", "PING of a stream", lambda c: c.frame(PING, 0, 1, bytes(8)), PROTOCOL)
error("6.7", "PING of another length", lambda c: c.frame(PING, 0, 0, b"123456"), SIZE)
error("6.8", "GOAWAY of a stream", lambda c: c.frame(GOAWAY, 0, 1, struct.pack(">II", 0, 0)), PROTOCOL)
error("6.8", "GOAWAY of another length", lambda c: c.frame(GOAWAY, 0, 0, b"\0\0\0\0"), SIZE)

# §6.9

error("6.9", "WINDOW_UPDATE of 0 for all", lambda c: c.window(0, 0), PROTOCOL)
stream_error("6.9", "WINDOW_UPDATE of 0 for a stream", open_and(lambda c: c.window(1, 0)), PROTOCOL)
error("6.9", "WINDOW_UPDATE of another length", lambda c: c.frame(WINDOW_UPDATE, 0, 0, b"\0\0\1"), SIZE)


@case("6.9.1", "a response keeps to a window of 1")
def window_of_one(c):
    c.settings((INITIAL_WINDOW_SIZE, 1))
    c.request(1)
    came = c.wait(lambda came: came.kind == DATA, "DATA")
    if len(came.payload) != 1:
        raise Wrong(f"DATA of 1 byte was awaited, and not of {len(came.payload)}")


def twice(stream):
    def run(c):
        if stream:
            c.post(stream)
        c.window(stream, 0x7FFFFFFF)
        c.window(stream, 0x7FFFFFFF)
    return run


error("6.9.1", "a window for all above 2^31-1", twice(0), FLOW)
stream_error("6.9.1", "a window of a stream above 2^31-1", twice(1), FLOW)


@case("6.9.2", "a window that settings open later lets a response go on")
def later_window(c):
    c.settings((INITIAL_WINDOW_SIZE, 0))
    c.request(1)
    c.wait(lambda came: came.kind == HEADERS, "a head")
    c.settings((INITIAL_WINDOW_SIZE, 1))
    came = c.wait(lambda came: came.kind == DATA, "DATA")
    if len(came.payload) != 1:
        raise Wrong(f"DATA of 1 byte was awaited, and not of {len(came.payload)}")


@case("6.9.2", "a window may be negative")
def negative_window(c):
    c.settings((INITIAL_WINDOW_SIZE, 3))
    c.request(1)
    if len(c.wait(lambda came: came.kind == DATA, "DATA").payload) != 3:
        raise Wrong("DATA of 3 bytes was awaited")
    c.settings((INITIAL_WINDOW_SIZE, 2))
    c.window(1, 2)
    came = c.wait(lambda came: came.kind == DATA, "DATA")
    if len(came.payload) != 1:
        raise Wrong(f"DATA of 1 byte was awaited, and not of {len(came.payload)}")


error("6.9.2", "INITIAL_WINDOW_SIZE above 2^31-1 for streams that are there", open_and(one_setting(INITIAL_WINDOW_SIZE, 0x80000000)), FLOW)


@case("6.9", "a response of a window each has all of its content")
def byte_by_byte(c):
    c.settings((INITIAL_WINDOW_SIZE, 0))
    c.request(1)
    content = b""
    while True:
        c.window(1, 1)
        came = c.wait(lambda came: came.kind == DATA and came.stream == 1, "DATA")
        if len(came.payload) > 1:
            raise Wrong("DATA of 1 byte was awaited")
        content += came.payload
        if came.flags & END_STREAM:
            break
    c.settings((INITIAL_WINDOW_SIZE, 65535))
    c.request(3)
    c.responds(3, content=content)


# §6.10


def begun(*frames):
    """A head that has not ended, then these frames on stream 1 unless they name another."""
    def run(c):
        c.request(1, ends_headers=False)
        for kind, flags, stream in frames:
            c.frame(kind, flags, stream, c.section([("x-dummy", "x")]) if kind in (HEADERS, CONTINUATION) else b"")
    return run


error("6.10", "CONTINUATION is followed by CONTINUATION only", begun((CONTINUATION, 0, 1), (DATA, END_STREAM, 1)), PROTOCOL)
error("6.10", "CONTINUATION without a stream", begun((CONTINUATION, END_HEADERS, 0)), PROTOCOL)
error("6.10", "CONTINUATION of another stream", begun((CONTINUATION, END_HEADERS, 3)), PROTOCOL)
error("6.10", "CONTINUATION behind a head's end", open_and(lambda c: c.frame(CONTINUATION, END_HEADERS, 1, c.section())), PROTOCOL)
error("6.10", "CONTINUATION behind its own end", begun((CONTINUATION, END_HEADERS, 1), (CONTINUATION, END_HEADERS, 1)), PROTOCOL)


def continuation_behind_data(c):
    c.post(1)
    c.data(1, b"test")
    c.frame(CONTINUATION, END_HEADERS, 1, c.section())


error("6.10", "CONTINUATION behind DATA", continuation_behind_data, PROTOCOL)
