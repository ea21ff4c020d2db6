// Tables of the sentences about wrong URLs and addresses, and of the first argument of `serve`.

import Testing

@testable import cistern

@Suite("Wrong URLs and addresses")
struct UpstreamURLTests {
    private static let long = "http://a.test/" + String(repeating: "p", count: 1_024)

    @Test(
        "each mistake in the upstream's URL has its own sentence",
        arguments: [
            ("localhost:8080", "has no scheme: \"localhost:8080\"; did you mean http://localhost:8080?"),
            ("api.test/v1", "has no scheme: \"api.test/v1\"; did you mean https://api.test/v1?"),
            ("http:/a.test", "needs // after http:: \"http:/a.test\""),
            ("ftp://x", "has the scheme ftp, but only http and https are possible: \"ftp://x\""),
            ("://x", "has no valid scheme: \"://x\""), ("http://", "has no host: \"http://\""),
            ("https://:80", "has no host: \"https://:80\""),
            ("http://a.test:70000", "has a port outside 1 to 65535: \"http://a.test:70000\""),
            ("http://a.test:0", "has a port outside 1 to 65535: \"http://a.test:0\""),
            ("http://a.test:", "has no port after the colon: \"http://a.test:\""),
            ("http://a.test:+80", "has a port that is not a number: \"http://a.test:+80\""),
            ("http://::1/", "contains an IPv6 address without brackets, as in http://[::1]:8080: \"http://::1/\""),
            ("http://[::g]", "contains brackets without a valid IPv6 address: \"http://[::g]\""),
            ("http://a.test/ b", "contains a space: \"http://a.test/ b\""),
            ("http://a*b", "has a host with a character that is not possible in host names: \"http://a*b\""),
            ("http://a.test\n", "contains a control character: \"http://a.test\n\""),
            (
                "http://bücher.test",
                "contains the character ü: write the host in its ASCII form (xn--…), and encode the path: \"http://bücher.test\""
            ),
        ])
    func sentences(url: String, clause: String) {
        #expect(throws: UpstreamURL.Mistake(clause: clause)) { try UpstreamURL(checking: url) }
    }

    @Test(
        "secrets of a refused URL are hidden",
        arguments: [
            ("http://ann:sesame@a.test", "a user name or password"), ("http://a.test?api_key=sesame", "a query"),
            ("http://a.test/#token=sesame", "a fragment"), ("ann:sesame@a.test", "no scheme"),
            ("http://ann:se\"same@a.test", "a user name"),
        ])
    func secrets(url: String, words: String) throws {
        let mistake = try #require(throws: UpstreamURL.Mistake.self) { try UpstreamURL(checking: url) }
        #expect(mistake.clause.contains(words) && mistake.clause.contains("a.test"), "\(mistake.clause)")
        for secret in ["sesame", "same", "ann"] { #expect(!mistake.clause.contains(secret), "\(mistake.clause)") }
    }

    @Test("a path that is too long is counted, and cut in the message")
    func longPath() throws {
        let mistake = try #require(throws: UpstreamURL.Mistake.self) { try UpstreamURL(checking: Self.long) }
        #expect(mistake.clause.hasPrefix("has a path of 1025 bytes, but at most 1024 are possible: ") && mistake.clause.utf8.count < 300)
        #expect(UpstreamURL(String(Self.long.dropLast())) != nil)
    }

    @Test(
        "each mistake in an address has its own sentence",
        arguments: [
            ("", "\"\" is empty: an address is "), ("8080", "is only a port; did you mean :8080?"),
            ("80800", "has a port outside 0 to 65535"), ("127.0.0.1:65536", "has a port outside 0 to 65535"),
            ("127.0.0.1", "has no port; did you mean 127.0.0.1:8080?"), ("localhost:", "has no port after the colon"),
            ("localhost:http", "has a port that is not a number"),
            ("example.com:80", "has a host name: give an address of this machine, such as 127.0.0.1:80"),
            ("127.0.0.300:80", "is not a valid IPv4 address, such as 127.0.0.1:80"),
            ("::1", "is an IPv6 address without brackets and port, as in [::1]:8080"),
            ("::1:", "has no port after the colon"), ("g::1:80", "is not a valid IPv6 address, as in [::1]:8080"),
            ("unix:", "has no path after unix:"),
            ("/run/a.sock", "is a path; did you mean unix:/run/a.sock?"), ("systemd:", "has no valid name of a socket after systemd:"),
            ("ftp://127.0.0.1:21", "has the scheme ftp, but only http and https are possible"),
            ("http://127.0.0.1:80/a", "contains a path, but an address is only a host and a port"),
            ("127.0.0.1:80?a=b", "contains a query, which an address must not have"),
            ("ann:sesame@127.0.0.1:80", "contains a user name or password"),
            ("nonsense", "is not an address: HOST:PORT, [IPV6]:PORT, :PORT, unix:/path or systemd:NAME, with numbers for hosts"),
        ])
    func addresses(text: String, clause: String) throws {
        let sentence = try #require(AddressMistake.sentence(text))
        #expect(sentence.contains(clause) && !sentence.contains("sesame"), "\(sentence)")
    }

    @Test(
        "valid addresses have no mistake", arguments: ["127.0.0.1:0", ":80", "[::1]:80", "unix:/a", "systemd:a", "https://127.0.0.1:443/"])
    func valid(text: String) {
        #expect(AddressMistake.sentence(text) == nil)
    }

    @Test(
        "the first argument names an upstream if it has a scheme, or looks like a host",
        arguments: [
            ("https://api.test/v1", "https://api.test/v1"), ("HTTP://a", "HTTP://a"), ("ftp://a", "ftp://a"),
            ("api.test", "https://api.test"),
            ("api.test:443", "https://api.test:443"), ("api.test:8080", "http://api.test:8080"), ("api.test/v1", "https://api.test/v1"),
            ("localhost", "http://localhost"), ("localhost:3000", "http://localhost:3000"), ("127.0.0.1", "http://127.0.0.1"),
            ("10.0.0.7:3000", "http://10.0.0.7:3000"), ("[::1]:3000", "http://[::1]:3000"), ("localhost:99999", "http://localhost:99999"),
            ("ann:x@api.test", "https://ann:x@api.test"),
            ("stats", nil), ("demo", nil), ("a.yaml", nil), ("api.har", nil), ("./x", nil), ("../x.y", nil), ("/a.b", nil), ("-x.y", nil),
            ("", nil),
            ("a b.c", nil), ("3000", nil),
        ] as [(String, String?)])
    func named(argument: String, url: String?) {
        #expect(UpstreamURL.named(by: argument) == url)
    }
}
