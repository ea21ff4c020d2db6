// The defaults are said twice: for operators in the settings, and in each room for whoever uses it without them, such as its tests. They are
// the same.

import Forwarding
import ReverseProxy
import Settings
import Testing
import Upstream

@testable import cistern

@Suite("Defaults")
struct DefaultsTests {
    private static func lines(_ settings: ProxySettings) -> [String] {
        var text = ""
        dump(settings, to: &text)
        return text.split(separator: "\n").map(String.init)
    }

    @Test("what each room does by itself is what the settings have it do by default")
    func same() {
        var given = CisternSettings()
        given.upstream.url = "http://api.test:81"
        var made = ProxySettings(given)
        let own = ProxySettings(upstream: UpstreamSettings(host: "api.test", port: 81))
        // Of this machine, and of the program.
        (made.listen, made.store, made.shards, made.version) = (own.listen, own.store, own.shards, own.version)
        made.admin.socket = own.admin.socket
        #expect(Self.lines(made).difference(from: Self.lines(own)).isEmpty)
        // It would be seen.
        made.forwarding.addressFields.removeLast()
        #expect(Self.lines(made) != Self.lines(own))
    }
}
