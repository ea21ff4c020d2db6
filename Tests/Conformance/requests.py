"""What of a request is malformed, and how field sections are coded (RFC 9113 §8, RFC 7541)."""

from wire import *  # noqa: F403


def malformed(section, sentence, make):
    """The fields that `make` gives are an error of the stream (RFC 9113 §8.1.1)."""
    @case(section, sentence)
    def check(c):
        c.request(1, make(c))
        c.resets(1, PROTOCOL)


def with_field(name, value):
    return lambda c: c.fields((name, value))


# §8.1

@case("8.1", "a second head that does not end the stream")
def second_head(c):
    c.post(1)
    c.request(1, [("x-test", "ok")], ends=False)
    c.resets(1, PROTOCOL)


@case("8.1.1", "content behind trailers")
def behind_trailers(c):
    c.post(1)
    c.request(1, [("x-test", "ok")])
    c.data(1, b"test")
    c.resets(1, CLOSED)


@case("8.1.1", "less content than its length says")
def short_content(c):
    c.post(1, ("content-length", "5"))
    c.data(1, b"test", ends=True)
    c.resets(1, PROTOCOL)


@case("8.1.1", "more content than its length says")
def long_content(c):
    c.post(1, ("content-length", "1"))
    c.data(1, b"test", ends=True)
    c.resets(1, PROTOCOL)


@case("8.1.1", "another sum of contents than its length says")
def content_in_parts(c):
    c.post(1, ("content-length", "1"))
    c.data(1, b"test")
    c.data(1, b"test", ends=True)
    c.resets(1, PROTOCOL)


@case("8.1.1", "a length, and no content at all")
def no_content(c):
    c.post(1, ("content-length", "1"), ends=True)
    c.resets(1, PROTOCOL)


@case("8.1.1", "a length, and trailers before it is full")
def trailers_too_early(c):
    c.post(1, ("content-length", "5"))
    c.data(1, b"test")
    c.request(1, [("x-test", "ok")])
    c.resets(1, PROTOCOL)


for length in ["-1", "+1", "1,1", "0x1", "99999999999999999999", ""]:
    malformed("8.1.1", f"the length {length!r}", lambda c, length=length: c.fields(("content-length", length), method="POST"))


@case("8.1.1", "two lengths")
def two_lengths(c):
    c.post(1, ("content-length", "4"), ("content-length", "4"))
    c.data(1, b"test", ends=True)
    c.resets(1, PROTOCOL)


# §8.2

malformed("8.2.1", "a name in upper case", with_field("X-TEST", "ok"))
malformed("8.2.1", "an empty name", with_field("", "ok"))
for name in ["x test", "x\ttest", "x\rtest", "x\ntest", "x\0test", "x:test", "x\x7ftest", "x\u00e9test", "x(test"]:
    malformed("8.2.1", f"the name {name!r}", with_field(name.encode(), b"ok"))
for value in ["a\0b", "a\nb", "a\rb", "a\r\nx-other: b", " a", "a ", "\ta", "a\t"]:
    malformed("8.2.1", f"the value {value!r}", with_field(b"x-test", value.encode()))

for name, value in [("connection", "keep-alive"), ("keep-alive", "timeout=5"), ("proxy-connection", "keep-alive"), ("transfer-encoding", "chunked"),
                    ("upgrade", "h2c"), ("te", "trailers, deflate"), ("te", "gzip")]:
    malformed("8.2.2", f"{name}: {value}", with_field(name, value))


@case("8.2.2", "te: trailers is good")
def te_trailers(c):
    c.request(1, c.fields(("te", "trailers")))
    c.responds(1, 200)


@case("8.2.3", "cookies may come in pieces")
def crumbs(c):
    c.request(1, c.fields(("cookie", "a=1"), ("cookie", "b=2")))
    c.responds(1, 200)


# §8.3

malformed("8.3", "a pseudo-field that is not known", with_field(":test", "ok"))
malformed("8.3", "a response's pseudo-field", with_field(":status", "200"))
malformed("8.3", "a pseudo-field behind a field", lambda c: [*c.fields(without=(":path",)), ("x-test", "ok"), (":path", "/")])
malformed("8.3.1", "an empty :path", lambda c: c.fields((":path", ""), without=(":path",)))
for name in (":method", ":scheme", ":path"):
    malformed("8.3.1", f"no {name}", lambda c, name=name: c.fields(without=(name,)))
for name in (":method", ":scheme", ":path", ":authority"):
    malformed("8.3.1", f"two of {name}", lambda c, name=name: [*c.fields(), *[field for field in c.fields() if field[0] == name]])
malformed("8.3.1", "an empty :method", lambda c: c.fields((":method", ""), without=(":method",)))
malformed("8.3.1", "a :method with a space", lambda c: c.fields((":method", "GET /x"), without=(":method",)))
malformed("8.3.1", "a :path with a space", lambda c: c.fields((":path", "/ HTTP/1.1"), without=(":path",)))
malformed("8.3.1", "a :path with a line", lambda c: c.fields((":path", "/\r\nx: y"), without=(":path",)))
malformed("8.3.1", "no field at all", lambda c: [])


@case("8.3", "a pseudo-field in trailers")
def pseudo_in_trailers(c):
    c.post(1)
    c.data(1, b"test")
    c.request(1, [(":method", "200")])
    c.resets(1, PROTOCOL)


def refused(section, sentence, make, statuses):
    """The client is told in a response of its own, or its stream is reset."""
    @case(section, sentence)
    def check(c):
        c.request(1, make(c))
        came = c.wait(lambda came: came.stream == 1 and came.kind in (HEADERS, RST_STREAM) or came.kind == GOAWAY, "a refusal")
        if came.kind == HEADERS and dict(came.fields)[":status"] not in statuses or came.kind == GOAWAY:
            raise Wrong(f"a refusal was awaited, and not {came} {getattr(came, 'fields', '')}")


def with_pseudo_field(name, value):
    return lambda c: [(field, value if field == name else old) for field, old in c.fields()]


for path in ["/a#b", "http://other.test/", "a", "//a b", "/a\\b c"]:
    refused("8.3.1", f"the :path {path!r}", with_pseudo_field(":path", path), ("400", "421"))
for authority in ["", "a b", "user@host", "a,b", "a/b", "a?b", "host:99999", "[::1"]:
    refused("8.3.1", f"the :authority {authority!r}", with_pseudo_field(":authority", authority), ("400", "421"))
refused("8.3.1", "a host that is not :authority's", lambda c: c.fields(("host", "other.test")), ("400", "421"))
refused("8.3.1", "two hosts", lambda c: c.fields(("host", c.server.authority), ("host", "other.test")), ("400", "421"))
refused("8.3.1", "neither :authority nor host", lambda c: c.fields(without=(":authority",)), ("400",))
refused("8.3.1", "a scheme that is not HTTP's", with_pseudo_field(":scheme", "ftp"), ("400",))
refused("8.5", "CONNECT", lambda c: [(":method", "CONNECT"), (":authority", "other.test:443")], ("405", "501"))
malformed("8.5", "CONNECT with a path", lambda c: c.fields(method="CONNECT"))
refused("8441", "extended CONNECT, which was not offered", lambda c: c.fields((":protocol", "websocket"), method="CONNECT"), ())


@case("8.3.1", "host instead of :authority")
def host_alone(c):
    c.request(1, c.fields(("host", c.server.authority), without=(":authority",)))
    c.responds(1, 200)


@case("10.3", "what was malformed goes nowhere: the next request has its own response")
def next_is_whole(c):
    c.request(1, c.fields(("x-test", "a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n")))
    c.resets(1, PROTOCOL)
    c.goes_on()
    c.request(3)
    c.responds(3, 200)


@case("10.5.1", "a head longer than the server takes is refused, and the connection goes on")
def long_head(c):
    for stream, count in ((1, 40), (3, 0)):
        section = c.section(c.fields(*[(f"x-test{number}", "x" * 1000) for number in range(count)]), huffman=False)
        c.frame(HEADERS, END_STREAM, stream, section[:16000])
        for place in range(16000, len(section), 16000):
            c.frame(CONTINUATION, 0, stream, section[place:place + 16000])
        c.frame(CONTINUATION, END_HEADERS, stream)
        c.responds(stream, 431 if count else 200)


# RFC 7541. Stream 1's section, and what is written by hand behind it.

def coded(sentence, behind, section="7541 6", before=b""):
    @case(section, sentence)
    def check(c):
        c.frame(HEADERS, END_STREAM | END_HEADERS, 1, before + c.section() + behind)
        c.responds(1, 200)


HUFFMAN_TEST = b"\x83\x49\x50\x9f"  # "test"
coded("an indexed field", b"\x90")  # accept-encoding: gzip, deflate
coded("a literal that is indexed, its name indexed", b"\x7a\x04test")  # user-agent
coded("the same in Huffman's code", b"\x7a" + HUFFMAN_TEST)
coded("a literal that is indexed, with a new name", b"\x40\x04test\x04test")
coded("the same in Huffman's code", b"\x40" + HUFFMAN_TEST * 2)
coded("a literal that is not indexed, its name indexed", b"\x0f\x2b\x04test")
coded("the same in Huffman's code", b"\x0f\x2b" + HUFFMAN_TEST)
coded("a literal that is not indexed, with a new name", b"\x00\x04test\x04test")
coded("the same in Huffman's code", b"\x00" + HUFFMAN_TEST * 2)
coded("a literal that is never indexed, its name indexed", b"\x1f\x2b\x04test")
coded("the same in Huffman's code", b"\x1f\x2b" + HUFFMAN_TEST)
coded("a literal that is never indexed, with a new name", b"\x10\x04test\x04test")
coded("the same in Huffman's code", b"\x10" + HUFFMAN_TEST * 2)
coded("a new size of the table", b"", "7541 6.3", before=b"\x2a")
coded("two new sizes of the table", b"", "7541 6.3", before=b"\x20\x3f\xe1\x1f")


@case("7541 2.3.2", "what was indexed is found by the next request")
def dynamic(c):
    plain = [(b"x-one", b"1"), (b"x-two", b"2")]
    for stream in (1, 3, 5):
        c.request(stream, c.fields(*plain))
        c.responds(stream, 200)


@case("7541 4.3", "a table of size 0 is empty, and may be filled again")
def emptied(c):
    c.encoder.header_table_size = 0
    c.request(1)
    c.responds(1, 200)
    c.encoder.header_table_size = 4096
    for stream in (3, 5):
        c.request(stream, c.fields(("x-test", "again")))
        c.responds(stream, 200)


def broken(section, sentence, behind, before=b""):
    @case(f"7541 {section}", sentence)
    def check(c):
        c.frame(HEADERS, END_STREAM | END_HEADERS, 1, before + c.section() + behind)
        c.ends_with(COMPRESSION)


broken("2.3.3", "an index beyond both tables", b"\xfe")
broken("2.3.3", "a literal whose name's index is beyond both tables", b"\x7f\x80\x01\x04test")
broken("4.2", "a new size of the table at the end of a section", b"\x20")
broken("5.1", "a number without end", b"\x7f" + b"\xff" * 12)
broken("5.1", "a number that is cut off", b"\x7f\xff")
broken("5.2", "a text that is cut off", b"\x00\x04te")
broken("5.2", "padding of more than seven bits", b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff")
broken("5.2", "padding of zeros", b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90")
broken("5.2", "the end's code within a text", b"\x00\x85\xf2\xb2\x4a\x84\xff\x87\x49\x51\xff\xff\xff\xfa\x7f")
broken("6.1", "the index 0", b"\x80")
broken("6.3", "a table larger than the server's", b"", before=b"\x3f\xe2\x1f")
