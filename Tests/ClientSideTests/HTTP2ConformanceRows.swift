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
        Row("4.1", "a frame of an unknown type is ignored", H.frame(.unknown, 0, 0, eight), .nothing),
        Row("4.1", "undefined flags are ignored", H.frame(.ping, 0x16, 0, eight), .nothing),
        Row("4.1", "the reserved bit is ignored", H.frame(.ping, 0, 0x8000_0000, eight), .nothing),
        Row(
            "4.2", "a DATA frame of 16 KiB is accepted",
            H.request(1, post, ends: false) + H.frame(.data, 1, 1, [UInt8](repeating: 0, count: 16_384)), .response(1)),
        Row(
            "4.2", "a DATA frame of more than 16 KiB is a stream error",
            H.request(1, post, ends: false) + H.frame(.data, 1, 1, [UInt8](repeating: 0, count: 16_385)),
            Row.stream(.frameSizeError)),
        Row(
            "4.2", "a HEADERS frame of more than 16 KiB is a connection error",
            H.frame(.headers, 5, 1, [UInt8](repeating: 0, count: 16_385)),
            Row.connection(.frameSizeError)),
        Row(
            "4.3", "a field section that cannot be decoded is a connection error", H.frame(.headers, 5, 1, [0x40, 0xff, 0xff]),
            Row.connection(.compressionError)),
        Row(
            "4.3", "a frame between the parts of a field section",
            H.frame(.headers, 1, 1, section) + H.frame(.priority, 0, 1, [0, 0, 0, 0, 1]),
            Row.connection(.protocolError)),
        Row(
            "4.3", "a frame of another stream between the parts of a field section", H.frame(.headers, 1, 1, section) + H.request(3),
            Row.connection(.protocolError)),
        Row(
            "5.5", "an unknown frame between the parts of a field section", H.frame(.headers, 1, 1, section) + H.frame(.unknown),
            Row.connection(.protocolError)),
        Row("5.5", "an unknown setting is ignored", H.frame(.settings, 0, 0, H.setting(0xff, 1)), .nothing),
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
        Row("5.1.1", "a client stream with an even number", H.request(2), Row.connection(.protocolError)),
        Row("5.1.1", "a client stream with a lower number", H.request(5) + H.request(3), Row.connection(.protocolError)),
        Row(
            "5.3.1", "HEADERS: a stream that depends on itself", H.frame(.headers, 5 | H.withPriority, 1, [0, 0, 0, 1, 16] + section),
            Row.stream(.protocolError)),
        Row("5.3.1", "PRIORITY: a stream that depends on itself", H.frame(.priority, 0, 1, [0, 0, 0, 1, 16]), Row.stream(.protocolError)),
        Row("5.4.1", "the connection ends after a connection error", H.frame(.ping, 0, 0, [1, 2]), Row.connection(.frameSizeError)),
    ]

    private static let dataAndHeaders: [Row] = [
        Row("6.1", "DATA on stream 0", H.frame(.data, 1, 0, [1]), Row.connection(.protocolError)),
        Row(
            "6.1", "padding longer than the frame", H.request(1, post, ends: false) + H.frame(.data, 1 | H.padded, 1, [9, 1, 2]),
            Row.connection(.protocolError)),
        Row(
            "6.1", "padding is not content",
            H.request(1, post + [("content-length", "1")], ends: false) + H.frame(.data, 1 | H.padded, 1, [2, 7, 0, 0]), .response(1)),
        Row("6.2", "HEADERS on stream 0", H.request(0), Row.connection(.protocolError)),
        Row(
            "6.2", "padding longer than the HEADERS frame", H.frame(.headers, 5 | H.padded, 1, [255] + section),
            Row.connection(.protocolError)),
        Row(
            "6.2", "a head with padding and a priority",
            H.frame(.headers, 5 | H.padded | H.withPriority, 1, [2, 0, 0, 0, 0, 9] + section + [0, 0]), .response(1)),
        Row("6.3", "PRIORITY on stream 0", H.frame(.priority, 0, 0, [0, 0, 0, 0, 1]), Row.connection(.protocolError)),
        Row(
            "6.3", "PRIORITY of an invalid length", H.request(1, post, ends: false) + H.frame(.priority, 0, 1, [0, 0, 1]),
            Row.stream(.frameSizeError)),
        Row("6.4", "RST_STREAM on stream 0", H.frame(.reset, 0, 0, H.number(8)), Row.connection(.protocolError)),
        Row(
            "6.4", "RST_STREAM of an invalid length", H.request(1, post, ends: false) + H.frame(.reset, 0, 1, [0, 0, 8]),
            Row.connection(.frameSizeError)),
        Row(
            "6.6", "PUSH_PROMISE from a client", H.request(1, post, ends: false) + H.frame(.push, 4, 1, [0, 0, 0, 3] + section),
            Row.connection(.protocolError)),
        Row(
            "6.10", "a field section in many parts",
            H.frame(.headers, 1, 1, Array(section[..<5])) + H.frame(.continuation, 0, 1, Array(section[5..<9]))
                + H.frame(.continuation, 0, 1)
                + H.frame(.continuation, 4, 1, Array(section[9...])), .response(1)),
        Row(
            "6.10", "CONTINUATION on stream 0", H.frame(.headers, 1, 1, section) + H.frame(.continuation, 4, 0),
            Row.connection(.protocolError)),
        Row(
            "6.10", "CONTINUATION after END_HEADERS", H.request(1, post, ends: false) + H.frame(.continuation, 4, 1, section),
            Row.connection(.protocolError)),
        Row(
            "6.10", "CONTINUATION after DATA",
            H.request(1, post, ends: false) + H.frame(.data, 0, 1, [1]) + H.frame(.continuation, 4, 1, section),
            Row.connection(.protocolError)),
    ]

    private static let control: [Row] = [
        Row("6.5", "a SETTINGS acknowledgement with content", H.frame(.settings, 1, 0, H.setting(1, 1)), Row.connection(.frameSizeError)),
        Row("6.5", "SETTINGS on a stream", H.frame(.settings, 0, 1, H.setting(3, 1)), Row.connection(.protocolError)),
        Row("6.5", "SETTINGS of an invalid length", H.frame(.settings, 0, 0, [0, 3, 0]), Row.connection(.frameSizeError)),
        Row("6.5.2", "ENABLE_PUSH other than 0 or 1", H.frame(.settings, 0, 0, H.setting(2, 2)), Row.connection(.protocolError)),
        Row(
            "6.5.2", "an initial window size above the maximum", H.frame(.settings, 0, 0, H.setting(4, 0x8000_0000)),
            Row.connection(.flowControlError)
        ),
        Row(
            "6.5.2", "a maximum frame size below the minimum", H.frame(.settings, 0, 0, H.setting(5, 16_383)),
            Row.connection(.protocolError)),
        Row(
            "6.5.2", "a maximum frame size above the maximum", H.frame(.settings, 0, 0, H.setting(5, 1 << 24)),
            Row.connection(.protocolError)),
        Row("6.7", "PING on a stream", H.frame(.ping, 0, 1, eight), Row.connection(.protocolError)),
        Row("6.7", "PING of an invalid length", H.frame(.ping, 0, 0, [1, 2, 3, 4, 5, 6]), Row.connection(.frameSizeError)),
        Row("6.7", "an unrequested PING acknowledgement", H.frame(.ping, 1, 0, eight), .nothing),
        Row("6.8", "GOAWAY on a stream", H.frame(.goAway, 0, 1, H.number(0) + H.number(0)), Row.connection(.protocolError)),
        Row(
            "7", "RST_STREAM with an unknown error code", H.request(1, post, ends: false) + H.frame(.reset, 0, 1, H.number(0xff)), .nothing
        ),
    ]

    private static let windows: [Row] = [
        Row("6.9", "a connection window increment of 0", H.frame(.window, 0, 0, H.number(0)), Row.connection(.protocolError)),
        Row(
            "6.9", "a stream window increment of 0", H.request(1, post, ends: false) + H.frame(.window, 0, 1, H.number(0)),
            Row.stream(.protocolError)),
        Row("6.9", "WINDOW_UPDATE of an invalid length", H.frame(.window, 0, 0, [0, 0, 1]), Row.connection(.frameSizeError)),
        Row(
            "6.9.1", "a connection window above the maximum",
            H.frame(.window, 0, 0, H.number(.max >> 1)) + H.frame(.window, 0, 0, H.number(.max >> 1)),
            Row.connection(.flowControlError)),
        Row(
            "6.9.1", "a stream window above the maximum",
            H.request(1, post, ends: false) + H.frame(.window, 0, 1, H.number(.max >> 1)) + H.frame(.window, 0, 1, H.number(.max >> 1)),
            Row.stream(.flowControlError)),
        // A known deviation: the library ends the stream, but the RFC requires to end the connection.
        Row(
            "6.9.2", "SETTINGS that raise a stream window above the maximum",
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
            "8.1", "a second HEADERS frame without END_STREAM",
            H.request(1, post, ends: false) + H.request(1, [("x-t", "1")], ends: false), Row.stream(.protocolError)),
        Row("8.1", "trailers", H.request(1, post, ends: false) + H.frame(.data, 0, 1, [1]) + H.request(1, [("x-t", "1")]), .response(1)),
        malformed("8.2.1", "a name in upper case", usual + [("X-Own", "1")]),
        malformed("8.2.1", "a name with a colon", usual + [("x:own", "1")]),
        malformed("8.2.1", "a name with a space", usual + [("x own", "1")]),
        malformed("8.2.1", "an empty name", usual + [("", "1")]),
        malformed("8.2.1", "a value with CR LF", usual + [("x-own", "1\r\nx: 2")]),
        malformed("8.2.1", "a value with a line feed", usual + [("x-own", "1\n2")]),
        malformed("8.2.1", "a value with a zero byte", usual + [("x-own", "1\u{0}2")]),
        malformed("8.2.1", "a value that begins with a space", usual + [("x-own", " 1")]),
        malformed("8.2.2", "a Connection field", usual + [("connection", "keep-alive")]),
        malformed("8.2.2", "a Transfer-Encoding field", usual + [("transfer-encoding", "chunked")]),
        malformed("8.2.2", "an Upgrade field", usual + [("upgrade", "h2c")]),
        malformed("8.2.2", "a Keep-Alive field", usual + [("keep-alive", "1")]),
        malformed("8.2.2", "a Proxy-Connection field", usual + [("proxy-connection", "keep-alive")]),
        malformed("8.2.2", "TE other than trailers", usual + [("te", "gzip")]),
        Row("8.2.2", "TE: trailers", H.request(1, usual + [("te", "trailers")]), .response(1)),
        malformed("8.3", "an unknown pseudo-field", usual + [(":own", "1")]),
        malformed("8.3", "a response pseudo-field", usual + [(":status", "200")]),
        malformed("8.3", "a pseudo-field after a regular field", without(":path") + [("x-own", "1"), (":path", "/")]),
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
        malformed("8.3.1", "an invalid path", without(":path") + [(":path", "a")]),
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
            "7541 2.3.3", "an index above the table size", H.frame(.headers, 5, 1, section + [0xff, 0x00]),
            Row.connection(.compressionError)),
        Row("7541 6.1", "the index 0", H.frame(.headers, 5, 1, section + [0x80]), Row.connection(.compressionError)),
        Row(
            "7541 4.2", "a table size update after a field", H.frame(.headers, 5, 1, section + [0x21]),
            Row.connection(.compressionError)),
        Row(
            "7541 6.3", "a table size above the limit", H.frame(.headers, 5, 1, [0x3f, 0xe1, 0xff, 0x03] + section),
            Row.connection(.compressionError)),
        Row(
            "7541 5.2", "padding longer than seven bits", H.frame(.headers, 5, 1, section + [0x00, 0x82, 0xff, 0xff, 0x01, 0x31]),
            Row.connection(.compressionError)),
        Row(
            "7541 5.2", "padding with zeros", H.frame(.headers, 5, 1, section + [0x00, 0x81, 0x18, 0x01, 0x31]),
            Row.connection(.compressionError)),
        Row(
            "7541 5.2", "the EOS code within a string",
            H.frame(.headers, 5, 1, section + [0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 0x31]),
            Row.connection(.compressionError)),
        Row(
            "7541 5.1", "an unterminated integer", H.frame(.headers, 5, 1, section + [0x7f] + [UInt8](repeating: 0xff, count: 12)),
            Row.connection(.compressionError)),
    ]
}
