// Tests of remembered name resolutions.

import Reactor
import Testing

@testable import Upstream

@Suite("Resolved addresses of names")
struct ResolvedNamesTests {
    @Test(
        "addresses are parsed and written in canonical form",
        arguments: [
            ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("2001:db8:0:0:0:0:0:1", "[2001:db8::1]"), ("name", nil), ("1.2.3", nil),
            ("", nil),
        ] as [(String, String?)])
    func addresses(_ text: String, _ expected: String?) {
        #expect(NamedAddress(text)?.text == expected)
    }

    @Test("a host name of a direct upstream is followed; addresses, proxies and Unix sockets are not")
    func followed() {
        var settings = UpstreamSettings(host: "api.test", port: 80)
        #expect(OriginConnections.followedName(settings) == "api.test")
        settings.proxy = "http://proxy:3128"
        #expect(OriginConnections.followedName(settings) == nil)
        (settings.proxy, settings.unixSocket) = (nil, "/s")
        #expect(OriginConnections.followedName(settings) == nil)
        (settings.unixSocket, settings.host) = (nil, "2001:db8::1")
        #expect(OriginConnections.followedName(settings) == nil)
    }

    @Test("names below localhost need no entry in the hosts file (RFC 6761)", arguments: ["api.localhost", "API.Localhost."])
    func local(_ name: String) {
        #expect(NameLookUp.system.find(name).addresses?.contains { $0.text == "127.0.0.1" } == true)
    }

    @Test("a failed or empty lookup keeps the known addresses; the last two answers count as recent")
    func answers() async throws {
        let script = Mutex<[[String]?]>([nil, ["10.0.0.1"], [], nil, ["10.0.0.2", "::1"], ["10.0.0.2"]])
        let names = ResolvedNames(
            NameLookUp { _ in script.withLock { $0.removeFirst() }?.compactMap { NamedAddress($0) } })
        var now: Int64 = 0
        func next() async -> [String] {
            names.refresh("a", interval: 30, now: now)
            await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in names.whenEnded("a") { ended.resume() } }
            names.refresh("a", interval: 30, now: now + 29)
            now += 30
            return names.addresses(of: "a").map(\.text)
        }
        #expect(await next() == [] && names.hasFailed("a"))
        #expect(await next() == ["10.0.0.1"] && names.lately("a") == nil)
        #expect(await next() == ["10.0.0.1"])
        #expect(await next() == ["10.0.0.1"] && names.hasFailed("a"))
        #expect(await next() == ["10.0.0.2", "[::1]"] && names.lately("a")?.count == 3)
        #expect(await next() == ["10.0.0.2"] && names.lately("a")?.count == 2 && !names.hasFailed("a"))
        #expect(names.counts == (3, 3) && script.withLock { $0.isEmpty })
    }
}
