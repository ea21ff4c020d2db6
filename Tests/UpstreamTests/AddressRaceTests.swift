// Tests of new connections to a name with several addresses, of which some refuse connections and others are silent.

import Dispatch
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("New connections to a name with several addresses", .play)
struct AddressRaceTests {
    /// Two servers that answer and three that are silent, at the same port. All other addresses refuse connections.
    private struct Servers {
        let first: ScriptedOrigin
        let second: ScriptedOrigin
        let silent: [SilentServer]

        init() {
            first = ScriptedOrigin { _ in [.json("1", ["Connection: close"]), .close] }
            second = ScriptedOrigin(beside: first) { _ in [.json("2", ["Connection: close"]), .close] }
            silent = AddressRaceTests.silent.map { [port = first.port] in SilentServer($0, port: port) }
        }
    }

    private static let good = ["127.0.0.1", "127.0.0.2"]
    private static let silent = ["127.0.0.3", "127.0.0.4", "127.0.0.5"]
    private static let refused = ["127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9", "::1"]

    /// A client of `api.test`, which only the scripted look-up knows.
    private func asking(_ port: UInt16, connections: Int = 512, _ find: @escaping @Sendable () -> [String]?) -> Asking {
        var settings = UpstreamSettings(host: "api.test", port: port)
        settings.maximumConnections = connections
        settings.names = ResolvedNames(NameLookUp { _ in find()?.compactMap { NamedAddress($0) } })
        return Asking(settings)
    }

    private func asking(_ port: UInt16, connections: Int = 512, at addresses: [String]) -> Asking {
        let asking = asking(port, connections: connections) { addresses }
        asking.onLoop { client in
            client.settings.names.refresh("api.test", interval: 1_000_000, now: 0)
            while client.settings.names.addresses(of: "api.test").isEmpty {}
        }
        return asking
    }

    /// Moves the clock until the transfer has ended. Returns the elapsed milliseconds.
    private func wait(_ asking: Asking, for recorder: Recorder) -> (end: Result<Bool, UpstreamError.Kind>?, after: Int) {
        for step in 0..<100 {
            if let end = recorder.end(within: 50) { return (end, step * 250) }
            asking.time.advance(by: .milliseconds(250))
        }
        return (nil, .max)
    }

    @Test("a name is as good as its best address: refusals cost no time, silent addresses 250 ms each, and only once")
    func schedules() {
        let servers = Servers()
        RandomSchedules.run(60) { random in
            var addresses = Self.refused.filter { _ in random.isTrue() } + Self.silent.filter { _ in random.isTrue(oneIn: 3) }
            if random.chance(75) { addresses += Self.good.filter { _ in random.isTrue() } }
            if addresses.isEmpty { addresses = [Self.good[0]] }
            addresses.shuffle(using: &random)
            try play(servers, addresses)
        }
    }

    private func play(_ servers: Servers, _ addresses: [String]) throws {
        let asking = asking(servers.first.port, at: addresses)
        defer { asking.end() }
        let request = asking.ask("POST", "/1")
        guard let good = addresses.firstIndex(where: Self.good.contains) else {
            guard addresses.contains(where: Self.silent.contains) else {
                let end = request.end(within: 5_000)
                return try demand(end == .failure(.connectionRefused), "\(addresses): \(String(describing: end))")
            }
            let (end, after) = wait(asking, for: request)
            let isTimeout = end == .failure(.connectionTimeout) && after >= 5_000
            return try demand(isTimeout, "\(addresses): \(String(describing: end)), \(after) ms")
        }
        let silent = addresses[..<good].count(where: Self.silent.contains)
        let (end, after) = silent == 0 ? (request.end(within: 5_000), 0) : wait(asking, for: request)
        try demand(end == .success(true), "\(addresses): \(String(describing: end))")
        try demand(after <= 250 * silent + 1_500, "\(addresses): after \(after) ms")
        for target in ["/2", "/3"] {
            let end = asking.ask("GET", target).end(within: 5_000)
            try demand(end == .success(true), "\(addresses), \(target): \(String(describing: end))")
        }
    }

    @Test("more silent addresses than can be tried at once: the oldest attempt makes room for the next address", arguments: [16, 1])
    func many(connections: Int) {
        let origin = ScriptedOrigin { _ in [.json("1", ["Connection: close"]), .close] }
        let silent = (1...17).map { "127.0.3.\($0)" }
        let servers = silent.map { SilentServer($0, port: origin.port) }
        let asking = asking(origin.port, connections: connections, at: (1...100).map { "127.0.2.\($0)" } + silent + ["127.0.0.1"])
        defer { withExtendedLifetime(servers) { asking.end() } }
        let (end, after) = wait(asking, for: asking.ask("GET", "/1"))
        #expect(end == .success(true) && after <= 5_000)
        #expect(asking.ask("GET", "/2").end(within: 5_000) == .success(true))
    }

    @Test("the first request waits for the look-up; after a failed one, the next request starts another one at once")
    func unresolved() {
        let servers = Servers()
        let answer = Mutex<[String]?>(nil)
        let asking = asking(servers.first.port) { answer.withLock { $0 } }
        defer { asking.end() }
        #expect(asking.ask("GET", "/1").end() == .failure(.dnsError))
        answer.withLock { $0 = ["127.0.0.6", "127.0.0.7", "127.0.0.2"] }
        #expect(asking.ask("GET", "/2").end() == .success(true))
        #expect(servers.second.requests.count == 1)
    }

    @Test("a look-up without an answer ends at the connect timeout; later requests do not wait for it")
    func hanging() {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let (gate, hangs) = (DispatchSemaphore(value: 0), Mutex(true))
        let asking = asking(origin.port) {
            guard hangs.withLock({ $0 }) else { return ["127.0.0.1"] }
            gate.wait()
            return []
        }
        defer {
            for _ in 0..<16 { gate.signal() }
            asking.end()
        }
        #expect(wait(asking, for: asking.ask("GET", "/1")).end == .failure(.dnsTimeout))
        hangs.withLock { $0 = false }
        #expect(asking.ask("GET", "/2").end(within: 5_000) == .success(true))
    }

    @Test("after a TLS handshake that gets no answer, new connections use another address")
    func handshake() {
        let bad = ScriptedOrigin(greeting: [.hang]) { _ in [] }
        let good = ScriptedOrigin(beside: bad, tls: SharedCertificates.tls) { _ in [.json("2", ["Connection: close"]), .close] }
        var settings = UpstreamSettings(host: "api.test", port: bad.port)
        Way.tls.prepare(&settings)
        (settings.verify, settings.caFile) = (false, nil)
        settings.names = ResolvedNames(NameLookUp { _ in Self.good.compactMap { NamedAddress($0) } })
        let asking = Asking(settings)
        defer {
            asking.end()
            bad.down()
        }
        #expect(wait(asking, for: asking.ask("GET", "/1")).end == .failure(.connectionTimeout))
        for number in 2...4 { #expect(asking.ask("GET", "/\(number)").end() == .success(true)) }
        #expect(good.requests.count == 3)
        // Of the requests after the pause, one tries the address again.
        asking.time.advance(by: .seconds(31))
        let first = asking.ask("GET", "/5")
        #expect(asking.ask("GET", "/6").end() == .success(true))
        #expect(wait(asking, for: first).end == .failure(.connectionTimeout))
        #expect(asking.ask("GET", "/7").end() == .success(true))
    }

    @Test("failed addresses are last for 30 s; then one connection tries them in the usual order")
    func order() {
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].compactMap { NamedAddress($0) }
        var order = AddressOrder()
        func places(at now: Int64) -> [Int] { order.order(addresses, of: addresses, at: now).compactMap { addresses.firstIndex(of: $0) } }
        #expect(places(at: 0) == [0, 1, 2])
        order.noteFailure(of: addresses[0], at: 0)
        order.noteFailure(of: addresses[1], at: 1)
        #expect(places(at: 29_999) == [2, 0, 1])
        #expect(places(at: 30_000) == [0, 2, 1])
        #expect(places(at: 30_000) == [2, 0, 1])
        order.noteSuccess(of: addresses[0])
        #expect(places(at: 30_000) == [0, 2, 1])
        #expect(places(at: 30_001) == [0, 1, 2])
        // A request that excludes an address, because it has failed there, forgets nothing.
        order.noteFailure(of: addresses[0], at: 40_000)
        order.noteFailure(of: addresses[1], at: 40_000)
        #expect(order.order([addresses[2]], of: addresses, at: 40_000) == [addresses[2]])
        #expect(places(at: 40_000) == [2, 0, 1])
    }
}
