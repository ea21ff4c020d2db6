// Tests that a whole proxy applies the entries of other nodes, in batches of any size.

import Logging
import Reactor
import ResponseCache
import ReverseProxy
import TestSupport
import Testing

@testable import Server
@testable import Sharing

@Suite("Applying messages of other nodes", .play)
struct FleetOrderApplierTests {
    @Test("more than a hundred thousand consecutive messages are applied, one after the other")
    func many() throws {
        let used = Mutex<ProxySettings?>(nil)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { settings in used.withLock { [settings] in $0 = settings } }
        play.stop()
        let settings = try #require(used.withLock { $0 })
        let server = try ProxyServer(settings, logger: Logger(label: "play") { _ in SwiftLogNoOpLogHandler() }, time: play.time)
        server.start()
        let obedience = FleetOrderApplier(server)
        let done = Gate()
        let marks = Array(repeating: FleetOrder.mark(Array("http://a/xI".utf8)), count: 120_000)
        obedience.apply(marks + [.everything(isSoft: true)] + marks[..<10]) { done.open() }
        done.pass()
        server.stop(deadline: Duration.zero)
    }
}
