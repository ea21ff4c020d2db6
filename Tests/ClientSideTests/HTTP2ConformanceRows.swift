// The rows of `HTTP2ConformanceTests`.

import HTTP2
import TestSupport

enum HTTP2ConformanceRows {
    typealias Row = ConformanceRow
    private typealias H = RawHTTP2

    static let all: [ConformanceRow] = frames + states + dataAndHeaders + control + windows + requests + compression

    private static let usual = H.usual
    private static let post = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a.test")]
    private static let section = H.fields(usual)
    private static let eight = [UInt8](repeating: 0, count: 8)

    private static let frames: [Row] = [
        Row("4.1", "a frame of a kind that is not known is ignored", H.frame(.unknown, 0, 0, eight), .nothing),
        Row("4.1", "flags that are not defined are ignored", H.frame(.ping, 0x16, 0, eight), .nothing),
        Row("4.1", "the reserved bit is ignored", H.frame(.ping, 0, 0x8000_0000, eight), .nothing),
        Row(
            "4.2", "content of 16 KiB is taken",
            H.request(1, post, ends: false) + H.frame(.data, 1, 1, [UInt8](repeating: 0, count: 16_384)), .response(1)),
        Row(
            "4.2", "content of more is not", H.request(1, post, ends: false) + H.frame(.data, 1, 1, [UInt8](repeating: 0, count: 16_385)),
            Row.stream(.frameSizeError)),
        Row(
            "4.2", "a field section of more ends the connection", H.frame(.headers, 5, 1, [UInt8](repeating: 0, count: 16_385)),
            Row.connection(.frameSizeError)),
        Row(
            "4.3", "a field section that cannot be read ends the connection", H.frame(.headers, 5, 1, [0x40, 0xff, 0xff]),
            Row.connection(.compressionError)),
        Row(
            "4.3", "nothing comes between the parts of a field section",
            H.frame(.headers, 1, 1, section) + H.frame(.priority, 0, 1, [0, 0, 0, 0, 1]),
            Row.connection(.protocolError)),
        Row("4.3", "no other stream's either", H.frame(.headers, 1, 1, section) + H.request(3), Row.connection(.protocolError)),
        Row("5.5", "nor what is not known", H.frame(.headers, 1, 1, section) + H.frame(.unknown), Row.connection(.protocolError)),
        Row("5.5", "a setting that is not known is ignored", H.frame(.settings, 0, 0, H.setting(0xff, 1)), .nothing),
    ]

    /// A closed stream: the client has ended it, and its response was sent.
    private static func afterResponse(_ bytes: [UInt8]) -> [UInt8] { H.request(1) + H.request(3) + bytes }

    private static let states: [Row] = [
        Row("5.1", "idle: content", H.frame(.data, 1, 1, [1]), Row.connection(.protocolError)),
        Row("5.1", "idle: a reset", H.frame(.reset, 0, 1, H.number(8)), Row.connection(.protocolError)),
        Row("5.1", "idle: a window", H.frame(.window, 0, 1, H.number(100)), Row.connection(.protocolError)),
        Row("5.1", "idle: a part of a field section", H.frame(.continuation, 4, 1, section), Row.connection(.protocolError)),
        Row("5.1", "half-closed: content", H.request(1) + H.frame(.data, 1, 1, [1]), Row.stream(.streamClosed)),
        Row("5.1", "half-closed: a head", H.request(1) + H.request(1), Row.stream(.streamClosed)),
        Row(
            "5.1", "half-closed: a part of a field section", H.request(1) + H.frame(.continuation, 4, 1, section),
            Row.stream(.streamClosed, .protocolError)),
        Row(
            "5.1", "closed by a reset: content",
            H.request(1, post, ends: false) + H.frame(.reset, 0, 1, H.number(8)) + H.frame(.data, 1, 1, [1]),
            Row.stream(.streamClosed)),
        Row(
            "5.1", "closed by a reset: a head", H.request(1, post, ends: false) + H.frame(.reset, 0, 1, H.number(8)) + H.request(1),
            Row.stream(.streamClosed)),
        Row(
            "5.1", "closed by a reset: a part of a field section",
            H.request(1, post, ends: false) + H.frame(.reset, 0, 1, H.number(8)) + H.frame(.continuation, 4, 1, section),
            Row.stream(.streamClosed, .protocolError)),
        Row(
            "5.1", "closed: a window and a reset are ignored",
            afterResponse(H.frame(.window, 0, 1, H.number(1)) + H.frame(.reset, 0, 1, H.number(8))), .nothing),
        Row("5.1", "closed: a priority is ignored", afterResponse(H.frame(.priority, 0, 1, [0, 0, 0, 0, 1])), .nothing),
        Row("5.1.1", "a client's streams have odd numbers", H.request(2), Row.connection(.protocolError)),
        Row("5.1.1", "and each a higher one", H.request(5) + H.request(3), Row.connection(.protocolError)),
        Row(
            "5.3.1", "a stream does not depend on itself", H.frame(.headers, 5 | H.withPriority, 1, [0, 0, 0, 1, 16] + section),
            Row.stream(.protocolError)),
        Row("5.3.1", "nor later", H.frame(.priority, 0, 1, [0, 0, 0, 1, 16]), Row.stream(.protocolError)),
        Row("5.4.1", "after an error the connection ends", H.frame(.ping, 0, 0, [1, 2]), Row.connection(.frameSizeError)),
    ]

    private static let dataAndHeaders: [Row] = [
        Row("6.1", "content without a stream", H.frame(.data, 1, 0, [1]), Row.connection(.protocolError)),
        Row(
            "6.1", "padding longer than the frame", H.request(1, post, ends: false) + H.frame(.data, 1 | H.padded, 1, [9, 1, 2]),
            Row.connection(.protocolError)),
        Row(
            "6.1", "padding is not content",
            H.request(1, post + [("content-length", "1")], ends: false) + H.frame(.data, 1 | H.padded, 1, [2, 7, 0, 0]), .response(1)),
        Row("6.2", "a head without a stream", H.request(0), Row.connection(.protocolError)),
        Row("6.2", "padding longer than a head", H.frame(.headers, 5 | H.padded, 1, [255] + section), Row.connection(.protocolError)),
        Row(
            "6.2", "a head with padding and a priority",
            H.frame(.headers, 5 | H.padded | H.withPriority, 1, [2, 0, 0, 0, 0, 9] + section + [0, 0]), .response(1)),
        Row("6.3", "a priority without a stream", H.frame(.priority, 0, 0, [0, 0, 0, 0, 1]), Row.connection(.protocolError)),
        Row(
            "6.3", "a priority of another length", H.request(1, post, ends: false) + H.frame(.priority, 0, 1, [0, 0, 1]),
            Row.stream(.frameSizeError)),
        Row("6.4", "a reset without a stream", H.frame(.reset, 0, 0, H.number(8)), Row.connection(.protocolError)),
        Row(
            "6.4", "a reset of another length", H.request(1, post, ends: false) + H.frame(.reset, 0, 1, [0, 0, 8]),
            Row.connection(.frameSizeError)),
        Row(
            "6.6", "a client promises nothing", H.request(1, post, ends: false) + H.frame(.push, 4, 1, [0, 0, 0, 3] + section),
            Row.connection(.protocolError)),
        Row(
            "6.10", "a field section in many parts",
            H.frame(.headers, 1, 1, Array(section[..<5])) + H.frame(.continuation, 0, 1, Array(section[5..<9]))
                + H.frame(.continuation, 0, 1)
                + H.frame(.continuation, 4, 1, Array(section[9...])), .response(1)),
        Row(
            "6.10", "a part without a stream", H.frame(.headers, 1, 1, section) + H.frame(.continuation, 4, 0),
            Row.connection(.protocolError)),
        Row(
            "6.10", "a part behind the end", H.request(1, post, ends: false) + H.frame(.continuation, 4, 1, section),
            Row.connection(.protocolError)),
        Row(
            "6.10", "a part behind content",
            H.request(1, post, ends: false) + H.frame(.data, 0, 1, [1]) + H.frame(.continuation, 4, 1, section),
            Row.connection(.protocolError)),
    ]

    private static let control: [Row] = [
        Row("6.5", "an acknowledgement that says something", H.frame(.settings, 1, 0, H.setting(1, 1)), Row.connection(.frameSizeError)),
        Row("6.5", "settings of a stream", H.frame(.settings, 0, 1, H.setting(3, 1)), Row.connection(.protocolError)),
        Row("6.5", "settings of another length", H.frame(.settings, 0, 0, [0, 3, 0]), Row.connection(.frameSizeError)),
        Row("6.5.2", "ENABLE_PUSH is 0 or 1", H.frame(.settings, 0, 0, H.setting(2, 2)), Row.connection(.protocolError)),
        Row(
            "6.5.2", "a window larger than there is", H.frame(.settings, 0, 0, H.setting(4, 0x8000_0000)), Row.connection(.flowControlError)
        ),
        Row("6.5.2", "frames too small", H.frame(.settings, 0, 0, H.setting(5, 16_383)), Row.connection(.protocolError)),
        Row("6.5.2", "frames too large", H.frame(.settings, 0, 0, H.setting(5, 1 << 24)), Row.connection(.protocolError)),
        Row("6.7", "a ping of a stream", H.frame(.ping, 0, 1, eight), Row.connection(.protocolError)),
        Row("6.7", "a ping of another length", H.frame(.ping, 0, 0, [1, 2, 3, 4, 5, 6]), Row.connection(.frameSizeError)),
        Row("6.7", "an answer that nobody asked for", H.frame(.ping, 1, 0, eight), .nothing),
        Row("6.8", "an end of a stream's", H.frame(.goAway, 0, 1, H.number(0) + H.number(0)), Row.connection(.protocolError)),
        Row(
            "7", "a reset for a reason that is not known", H.request(1, post, ends: false) + H.frame(.reset, 0, 1, H.number(0xff)), .nothing
        ),
    ]

    private static let windows: [Row] = [
        Row("6.9", "no window for all", H.frame(.window, 0, 0, H.number(0)), Row.connection(.protocolError)),
        Row(
            "6.9", "no window for a stream", H.request(1, post, ends: false) + H.frame(.window, 0, 1, H.number(0)),
            Row.stream(.protocolError)),
        Row("6.9", "a window of another length", H.frame(.window, 0, 0, [0, 0, 1]), Row.connection(.frameSizeError)),
        Row(
            "6.9.1", "a window for all beyond what there is",
            H.frame(.window, 0, 0, H.number(.max >> 1)) + H.frame(.window, 0, 0, H.number(.max >> 1)),
            Row.connection(.flowControlError)),
        Row(
            "6.9.1", "a window of a stream beyond what there is",
            H.request(1, post, ends: false) + H.frame(.window, 0, 1, H.number(.max >> 1)) + H.frame(.window, 0, 1, H.number(.max >> 1)),
            Row.stream(.flowControlError)),
        // A known deviation: the library ends the stream, but the RFC requires to end the connection.
        Row(
            "6.9.2", "settings that take a stream's window beyond what there is",
            H.request(1, post, ends: false) + H.frame(.window, 0, 1, H.number((.max >> 1) - 65_535))
                + H.frame(.settings, 0, 0, H.setting(4, 65_536 + 100)),
            Row.stream(.flowControlError)),
        Row(
            "6.9.2", "a response waits for its window",
            H.frame(.settings, 0, 0, H.setting(4, 0)) + H.request(1) + H.frame(.settings, 0, 0, H.setting(4, 1))
                + H.frame(.window, 0, 1, H.number(1)), .response(1)),
    ]

    private static func malformed(_ section: String, _ sentence: String, _ lines: [(String, String)]) -> Row {
        Row(section, sentence, H.request(1, lines), Row.stream(.protocolError))
    }

    private static func without(_ name: String) -> [(String, String)] { usual.filter { $0.0 != name } }

    private static let requests: [Row] = [
        Row(
            "8.1", "a second head that does not end the stream",
            H.request(1, post, ends: false) + H.request(1, [("x-t", "1")], ends: false), Row.stream(.protocolError)),
        Row("8.1", "trailers", H.request(1, post, ends: false) + H.frame(.data, 0, 1, [1]) + H.request(1, [("x-t", "1")]), .response(1)),
        malformed("8.2.1", "a name in upper case", usual + [("X-Own", "1")]),
        malformed("8.2.1", "a name with a colon", usual + [("x:own", "1")]),
        malformed("8.2.1", "a name with a space", usual + [("x own", "1")]),
        malformed("8.2.1", "an empty name", usual + [("", "1")]),
        malformed("8.2.1", "a value with a line in it", usual + [("x-own", "1\r\nx: 2")]),
        malformed("8.2.1", "a value with a line feed", usual + [("x-own", "1\n2")]),
        malformed("8.2.1", "a value with a zero byte", usual + [("x-own", "1\u{0}2")]),
        malformed("8.2.1", "a value that begins with a space", usual + [("x-own", " 1")]),
        malformed("8.2.2", "a field of the connection", usual + [("connection", "keep-alive")]),
        malformed("8.2.2", "a coding of the transfer", usual + [("transfer-encoding", "chunked")]),
        malformed("8.2.2", "an upgrade", usual + [("upgrade", "h2c")]),
        malformed("8.2.2", "a kept connection", usual + [("keep-alive", "1")]),
        malformed("8.2.2", "a proxy's connection", usual + [("proxy-connection", "keep-alive")]),
        malformed("8.2.2", "TE is trailers", usual + [("te", "gzip")]),
        Row("8.2.2", "and nothing else", H.request(1, usual + [("te", "trailers")]), .response(1)),
        malformed("8.3", "a pseudo-field that is not known", usual + [(":own", "1")]),
        malformed("8.3", "a response's pseudo-field", usual + [(":status", "200")]),
        malformed("8.3", "a pseudo-field behind a field", without(":path") + [("x-own", "1"), (":path", "/")]),
        Row(
            "8.3", "a pseudo-field in trailers", H.request(1, post, ends: false) + H.request(1, [(":method", "GET")]),
            Row.stream(.protocolError)),
        malformed("8.3.1", "no method", without(":method")),
        malformed("8.3.1", "no scheme", without(":scheme")),
        malformed("8.3.1", "no path", without(":path")),
        malformed("8.3.1", "an empty path", without(":path") + [(":path", "")]),
        malformed("8.3.1", "two methods", usual + [(":method", "GET")]),
        malformed("8.3.1", "two schemes", usual + [(":scheme", "http")]),
        malformed("8.3.1", "two paths", usual + [(":path", "/")]),
        malformed("8.3.1", "two authorities", usual + [(":authority", "a.test")]),
        malformed("8.3.1", "a path with a space and another version", without(":path") + [(":path", "/ HTTP/1.1")]),
        malformed("8.3.1", "a path that is none", without(":path") + [(":path", "a")]),
        malformed("8.3.1", "a method with a space", without(":method") + [(":method", "GET /x")]),
        malformed("8.1.1", "less content than announced", usual + [("content-length", "1")]),
        Row(
            "8.1.1", "other content than announced",
            H.request(1, post + [("content-length", "1")], ends: false) + H.frame(.data, 1, 1, [1, 2, 3, 4]),
            Row.stream(.protocolError)),
        Row(
            "8.1.1", "other content than announced, in parts",
            H.request(1, post + [("content-length", "5")], ends: false) + H.frame(.data, 0, 1, [1, 2]) + H.frame(.data, 1, 1, [1]),
            Row.stream(.protocolError)),
        malformed("8.1.1", "two lengths", usual + [("content-length", "0"), ("content-length", "0")]),
    ]

    private static let compression: [Row] = [
        Row(
            "7541 2.3.3", "an index beyond the tables", H.frame(.headers, 5, 1, section + [0xff, 0x00]), Row.connection(.compressionError)),
        Row("7541 6.1", "the index 0", H.frame(.headers, 5, 1, section + [0x80]), Row.connection(.compressionError)),
        Row(
            "7541 4.2", "a new size of the table behind a field", H.frame(.headers, 5, 1, section + [0x21]),
            Row.connection(.compressionError)),
        Row(
            "7541 6.3", "a table larger than ours", H.frame(.headers, 5, 1, [0x3f, 0xe1, 0xff, 0x03] + section),
            Row.connection(.compressionError)),
        Row(
            "7541 5.2", "padding longer than seven bits", H.frame(.headers, 5, 1, section + [0x00, 0x82, 0xff, 0xff, 0x01, 0x31]),
            Row.connection(.compressionError)),
        Row(
            "7541 5.2", "padding with zeros", H.frame(.headers, 5, 1, section + [0x00, 0x81, 0x18, 0x01, 0x31]),
            Row.connection(.compressionError)),
        Row(
            "7541 5.2", "the end's code within a text",
            H.frame(.headers, 5, 1, section + [0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 0x31]),
            Row.connection(.compressionError)),
        Row(
            "7541 5.1", "a number without end", H.frame(.headers, 5, 1, section + [0x7f] + [UInt8](repeating: 0xff, count: 12)),
            Row.connection(.compressionError)),
    ]
}
