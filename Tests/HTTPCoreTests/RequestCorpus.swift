// Valid and invalid requests with the parser's result: 200 is accepted, 0 is incomplete, other numbers are the status of the refusal.
// `Tests/Comparison/compare_parsers.py` reads this file and passes the rows to h11 and httptools.

import Testing

enum RequestCorpus {
    struct Row: Sendable, CustomTestStringConvertible {
        let expected: UInt16
        let text: String

        var bytes: [UInt8] { Array(text.utf8) }
        var testDescription: String { "\(expected) \(text.debugDescription.prefix(80))" }
    }

    private static func row(_ expected: UInt16, _ text: String) -> Row { Row(expected: expected, text: text) }

    static let all: [Row] = lines + hosts + fields + lengths + codings

    // corpus
    private static let lines: [Row] = [
        row(200, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "GET / HTTP/1.0\r\n\r\n"),
        row(200, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "M-SEARCH /x HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "GET /%7e?a=b&c HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "GET /\"<>\\^`{|} HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(0, "GET / HTTP/1.1\r\nHost: a\r\n"),
        row(0, "GET / HT"),
        row(400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        row(400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        row(400, "GET /\r\nHost: a\r\n\r\n"),
        row(400, "GET / http/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET / HTTP/1\r\nHost: a\r\n\r\n"),
        row(400, "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
        row(400, "GET / HTTP/ 1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET / XTTP/1.1\r\nHost: a\r\n\r\n"),
        row(505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        row(505, "GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
        row(505, "PRI * HTTP/2.0\r\n\r\n"),
        row(400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET /a\u{1}b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET /a\u{7f}b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "GET /\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(200, "GET /a?\u{e4}=\u{1f600} HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET /\u{e4} b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET /\u{e4}#b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET /\u{e4}\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET \u{e4} HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET http://\u{e4}/ HTTP/1.1\r\nHost: \u{e4}\r\n\r\n"),
        row(400, "CONNECT \u{e4}:443 HTTP/1.1\r\nHost: \u{e4}:443\r\n\r\n"),
        row(400, "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET http:///b HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "\u{16}\u{3}\u{1}\r\n\r\n"),
    ]

    private static let hosts: [Row] = [
        row(200, "GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nHost: a_b\r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nhOsT: a\r\n\r\n"),
        row(200, "GET http://A:80/ HTTP/1.1\r\nHost: a:80\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: u:p@a\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a#b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: [gg::1]\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a:-1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: http://a\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: \u{e4}\r\n\r\n"),
        row(400, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        row(400, "GET http://a:81/ HTTP/1.1\r\nHost: a:80\r\n\r\n"),
        row(400, "GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        row(400, "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
    ]

    private static let fields: [Row] = [
        row(200, "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nHost: a\r\nX:1\r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nHost: a\r\nX: \t1\t \r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nHost: a\r\nX: \u{e4}\r\n\r\n"),
        row(200, "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09aZ: 1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\n X: 1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\t2\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX(: 1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX@Y: 1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\n\u{e4}: 1\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{0}b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\nb: c\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{7f}b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{1b}b\r\n\r\n"),
        row(400, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\r\n\r\n"),
    ]

    private static let lengths: [Row] = [
        row(200, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
        row(200, "POST / HTTP/1.1\r\nHost: a\r\ncontent-length:  10 \r\n\r\n"),
        row(200, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0010\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1.0\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1,1\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"1\"\r\n\r\n"),
        row(413, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n"),
    ]

    private static let codings: [Row] = [
        row(200, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
        row(200, "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        row(400, "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{b}chunked\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n"),
        row(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n"),
        row(501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"),
        row(501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n"),
        row(501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"),
    ]
    // end of corpus
}
