// Tests of a server that is created and never started, as after a take-over that fails late.

import CacheStore
import Downstream
import Logging
import ReverseProxy
import Server
import TestSupport
import Testing
import Upstream

@Suite("A server that is never started", .play)
struct UnstartedServerTests {
    @Test("a server that is never started can be released")
    func released() throws {
        let temporary = TestTools.temporaryDirectory()
        var settings = ProxySettings(upstream: UpstreamSettings(host: "127.0.0.1", port: 9))
        settings.listening.listeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
        settings.store = StoreSettings(directory: temporary.path, capacityBytes: 16 << 20)
        settings.shards = 2
        weak var left: ProxyServer?
        do {
            let server = try ProxyServer(settings, logger: Logger(label: "play") { _ in SwiftLogNoOpLogHandler() })
            left = server
            #expect(!server.addresses.isEmpty)
        }
        #expect(try eventually { left == nil })
    }
}
