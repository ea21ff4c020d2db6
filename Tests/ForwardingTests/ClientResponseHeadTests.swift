// Tests of the response head that a client receives. Without sockets.

import Forwarding
import HTTPCore
import Testing

@Suite("Response heads for clients")
struct ClientResponseHeadTests {
    private static func made(
        _ lines: [(String, String)], status: Status = 200, reason: String = "", _ change: (inout ForwardingSettings) -> Void = { _ in }
    ) -> [String] {
        var settings = ForwardingSettings()
        change(&settings)
        let maker = ClientResponseHead(
            settings: settings,
            location: LocationRewriting(isOn: settings.rewriteLocation, origin: Array("http://api.example".utf8), basePath: []),
            hiddenFields: [Array("cdn-cache-control".utf8)])
        var fields = Fields()
        for (name, value) in lines { fields.append(name: name, value: value) }
        let head = maker.make(
            ResponseHead(status: status, reason: Array(reason.utf8), fields: fields), date: Array("now".utf8), extraCapacity: 7)
        return String(decoding: head, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init)
    }

    @Test("fields keep their order and spelling; Via is added, and Date if missing")
    func fields() {
        #expect(
            Self.made([("X-B", "1"), ("x-a", ""), ("X-B", "2")])
                == ["HTTP/1.1 200 OK", "X-B: 1", "x-a: ", "X-B: 2", "Date: now", "Via: 1.1 cistern", ""])
        #expect(
            Self.made([("Date", "then"), ("Via", "1.0 a")], status: 404, reason: "Nope") { $0.name = "edge" }
                == ["HTTP/1.1 404 Nope", "Date: then", "Via: 1.0 a", "Via: 1.1 edge", ""])
        #expect(Self.made([("Date", "then")]) { $0.via = false } == ["HTTP/1.1 200 OK", "Date: then", ""])
    }

    @Test("Content-Length and targeted cache fields are omitted")
    func omitted() {
        let made = Self.made([("Content-Length", "5"), ("CDN-Cache-Control", "max-age=1"), ("X", "1"), ("cdn-cache-control", "a")])
        #expect(made == ["HTTP/1.1 200 OK", "X: 1", "Date: now", "Via: 1.1 cistern", ""])
    }

    @Test(
        "a redirect within the upstream becomes relative, and others are unchanged",
        arguments: [
            ("http://API.example/b?c", "/b?c"), ("/b", "/b"), ("http://other.example/b", "http://other.example/b"),
        ])
    func location(sent: String, seen: String) {
        let made = Self.made([("Location", sent), ("Date", "then")], status: 302)
        #expect(made.filter { $0.hasPrefix("Location: ") } == ["Location: \(seen)"])
        let asSent = Self.made([("Location", sent)], status: 302) { $0.rewriteLocation = false }
        #expect(asSent.contains("Location: \(sent)"))
    }
}
