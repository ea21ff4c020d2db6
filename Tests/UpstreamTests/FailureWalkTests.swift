// Tests two principles of the failure memory with random schedules: silence is no evidence, and one client is no witness. A failing test
// names its seed.

import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite("The failure memory under random schedules")
struct FailureWalkTests {
    /// Number of schedules. `make soak` runs ten times as many.
    private static let walks = 1_000

    // MARK: An attacker

    /// Honest clients with working targets and a failing one, and an attacker with random requests.
    private func attacked(_ random: inout SeededGenerator) -> (walk: FailureWalk, wellKeys: Int, hangs: Bool) {
        let walk = FailureWalk(random)
        let (length, right) = (Int64(30_000), 2 * walk.settings.recheck)
        let honest = Int.random(in: 1...4, using: &walk.random)
        walk.clients = (0..<honest).map {
            WalkClient(address: UInt64($0 + 1), user: Bool.random(using: &walk.random) ? UInt64($0 + 10) : 0)
        }
        let attackers = Int.random(in: 1...3, using: &walk.random)
        // One address with changing credentials.
        for user in 0..<attackers { walk.clients.append(WalkClient(address: 99, user: UInt64(user == 0 ? 0 : 100 + user))) }
        let wellKeys = Int.random(in: 1...3, using: &walk.random)
        let route = Bool.random(using: &walk.random) ? 0 : nil
        for key in 0..<wellKeys { walk.keys.append(WalkKey(target: "/data?item=\(key)", route: key == 0 ? nil : route)) }
        walk.keys.append(WalkKey(target: "/bad", route: route, wellSince: nil))
        let evil = Int.random(in: 1...20, using: &walk.random)
        for key in 0..<evil {
            walk.keys.append(WalkKey(target: "/data?evil=\(key)", route: route, hasCopy: Bool.random(using: &walk.random), wellSince: nil))
        }
        let (kind, badKind) = (
            Treatment.failures.randomElement(using: &walk.random)!, Treatment.failures.randomElement(using: &walk.random)!
        )
        // The attacker's targets fail. Working targets may also fail for the attacker, by its rate limit.
        let isLimited = Bool.random(using: &walk.random)
        // For some seconds everything fails, which several clients observe.
        let glitch = Int64.random(in: 500...4_000, using: &walk.random)
        var isDown = false
        if Bool.random(using: &walk.random) {
            walk.schedule(.change { isDown = true }, at: 15_000 - glitch)
            walk.schedule(
                .change {
                    isDown = false
                    for key in 0..<wellKeys { walk.keys[key].wellSince = 15_000 }
                }, at: 15_000)
        }
        walk.treat = { client, key in
            if isDown { return kind }
            if key == wellKeys { return badKind }
            if key < wellKeys { return client >= honest && isLimited ? kind : .well }
            return kind
        }
        for client in 0..<honest {
            for key in 0..<wellKeys where client == 0 || Bool.random(using: &walk.random) {
                // Only the first client sends requests often enough.
                walk.ask(key, by: client, every: client == 0 ? 200...right : 200...9_000, from: Int64(client * 37), until: length)
            }
            walk.ask(wellKeys, by: client, every: 300...3_000, from: 100, until: length)
        }
        let start = Int64.random(in: 0...10_000, using: &walk.random)
        for client in honest..<walk.clients.count {
            for key in (wellKeys + 1)..<walk.keys.count { walk.ask(key, by: client, every: 500...8_000, from: start, until: length) }
            if isLimited { walk.ask(0, by: client, every: 300...1_000, from: start, until: length) }
        }
        return (walk, wellKeys, kind == .hang)
    }

    @Test("an attacker's requests never make other clients receive stored responses for healthy resources", .slow)
    func attackers() {
        RandomSchedules.run(Self.walks) {
            attacked(&$0)
        } end: { world in
            let (walk, wellKeys, hangs) = world
            walk.run(until: 30_000)
            let honest = walk.clients.count { $0.address != 99 }
            for answer in walk.answers where answer.key < wellKeys && answer.client < honest {
                guard answer.asked < 11_000 || answer.asked >= 15_000 else { continue }
                // A turn that another client does not use takes a quarter of a recheck. If a key works for some clients only, these have
                // every second turn, and a hanging check delays its client's next one.
                let turns: Int64 = answer.key == 0 ? 3 : 1
                // Two attempts from the outage may hang until after the recovery, without other requests. They open the key late.
                let late = hangs ? 2 * walk.settings.recheck : 0
                try demand(answer.age <= turns * walk.settings.recheck * 5 / 4 + late + 300, "\(answer)")
            }
            try demand(!walk.memory.isDown || walk.memory.openScopes(now: walk.now).isEmpty)
            try evident(walk)
        }
    }

    /// A stored response is served at once only if an attempt in its scope failed within two rechecks.
    private func evident(_ walk: FailureWalk) throws {
        for answer in walk.answers where answer.isImmediate && answer.scope != .address {
            try demand(answer.asked - (answer.evidence ?? .min / 2) <= 2 * walk.settings.recheck, "\(answer)")
        }
    }

    /// One client exceeds its rate limit on one key.
    private func limited(_ random: inout SeededGenerator) -> (walk: FailureWalk, honest: Int) {
        let walk = FailureWalk(random)
        let honest = Int.random(in: 1...3, using: &walk.random)
        walk.clients = (0...honest).map { WalkClient(address: UInt64($0 + 1)) }
        walk.keys = [WalkKey(target: "/data"), WalkKey(target: "/other")]
        let kind = Treatment.failures.randomElement(using: &walk.random)!
        // For some seconds everything fails, which all clients observe.
        var isDown = false
        walk.schedule(.change { isDown = true }, at: 15_000 - Int64.random(in: 2_500...4_000, using: &walk.random))
        walk.schedule(
            .change {
                isDown = false
                for key in walk.keys.indices { walk.keys[key].wellSince = 15_000 }
            }, at: 15_000)
        walk.treat = { client, _ in isDown || client == honest ? kind : .well }
        for key in walk.keys.indices {
            for client in 0..<honest { walk.ask(key, by: client, every: 200...(client == 0 ? 2_000 : 9_000), from: 0, until: 30_000) }
        }
        walk.ask(0, by: honest, every: 5...30, from: 10_000, until: 30_000)
        return (walk, honest)
    }

    @Test("a busy client that exhausted its rate limit does not take the checks of other clients", .slow)
    func limits() {
        RandomSchedules.run(Self.walks / 20) {
            limited(&$0)
        } end: { world in
            let (walk, honest) = world
            walk.run(until: 30_000)
            // These clients have every second turn, and a check may hang.
            for answer in walk.answers where answer.client < honest && answer.asked >= 15_000 {
                try demand(answer.age <= walk.settings.recheck * 15 / 4 + 300, "\(answer)")
            }
        }
    }

    /// All requests of one address fail, with any credentials. Those of other addresses succeed, often or rarely.
    private func alone(_ random: inout SeededGenerator) -> (walk: FailureWalk, honest: Int) {
        let walk = FailureWalk(random)
        let honest = Int.random(in: 1...3, using: &walk.random)
        walk.clients = (0..<honest).map {
            WalkClient(address: UInt64($0 + 1), user: Bool.random(using: &walk.random) ? UInt64($0 + 10) : 0)
        }
        for user in 0..<Int.random(in: 1...3, using: &walk.random) {
            walk.clients.append(WalkClient(address: 99, user: UInt64(user == 0 ? 0 : 100 + user)))
        }
        let route = Bool.random(using: &walk.random) ? 0 : nil
        let count = Int.random(in: 1...8, using: &walk.random)
        for key in 0..<count { walk.keys.append(WalkKey(target: "/data?item=\(key)", route: key % 2 == 0 ? nil : route)) }
        let kind = Treatment.failures.randomElement(using: &walk.random)!
        walk.treat = { client, _ in client >= honest ? kind : .well }
        let rarest = [2_000, 25_000].randomElement(using: &walk.random)!
        for key in 0..<count {
            for client in 0..<honest { walk.ask(key, by: client, every: 200...Int64(rarest), from: Int64(client * 37), until: 60_000) }
            for client in honest..<walk.clients.count { walk.ask(key, by: client, every: 100...4_000, from: 1_000, until: 60_000) }
        }
        return (walk, honest)
    }

    @Test("failures seen by one address, with any credentials, do not stop requests of another address", .slow)
    func oneAddress() {
        RandomSchedules.run(Self.walks / 4) {
            alone(&$0)
        } end: { world in
            let (walk, honest) = world
            walk.run(until: 60_000)
            for answer in walk.answers where answer.client < honest { try demand(answer.age < 0, "\(answer)") }
            try evident(walk)
        }
    }

    // MARK: Bad paths

    /// Some keys always fail, for all clients. One key succeeds, and is requested often or rarely.
    private func badPaths(_ random: inout SeededGenerator) -> (walk: FailureWalk, kind: Treatment) {
        let walk = FailureWalk(random)
        walk.clients = (0..<Int.random(in: 2...4, using: &walk.random)).map { WalkClient(address: UInt64($0 + 1)) }
        let route = Bool.random(using: &walk.random) ? 0 : nil
        walk.keys = [WalkKey(target: "/well", route: route)]
        for key in 1...Int.random(in: 5...10, using: &walk.random) {
            walk.keys.append(WalkKey(target: "/bad/\(key)", route: route, wellSince: nil))
        }
        let kind = Treatment.failures.randomElement(using: &walk.random)!
        walk.treat = { _, key in key == 0 ? .well : kind }
        walk.ask(0, by: 0, every: Bool.random(using: &walk.random) ? 11_000...20_000 : 200...1_000, from: 0, until: 90_000)
        for key in walk.keys.indices.dropFirst() {
            for client in walk.clients.indices { walk.ask(key, by: client, every: 300...1_500, from: 1_000, until: 90_000) }
        }
        return (walk, kind)
    }

    @Test("paths that always fail stop only their own requests, even if other paths are requested rarely", .slow)
    func paths() {
        RandomSchedules.run(Self.walks / 20) {
            badPaths(&$0)
        } end: { world in
            let (walk, kind) = world
            walk.run(until: 90_000)
            // By then the good key has succeeded between the failures of every other key.
            for answer in walk.answers where answer.asked > 45_000 {
                if answer.key == 0 {
                    try demand(answer.age < 0, "\(answer)")
                } else if kind != .hang {
                    // The end of a hang within two rechecks of the last one is no evidence.
                    try demand(answer.isImmediate, "\(answer)")
                }
            }
            try bounded(walk)
            try evident(walk)
        }
    }

    // MARK: An outage

    enum Traffic: CaseIterable { case brisk, oneClient, threeTargets, everyFourSeconds }

    private func outage(_ random: inout SeededGenerator) -> (walk: FailureWalk, kind: Treatment, from: Int64, until: Int64) {
        let walk = FailureWalk(random)
        let traffic = Traffic.allCases.randomElement(using: &walk.random)!
        let kind = Treatment.allCases.filter { $0 != .well }.randomElement(using: &walk.random)!
        let clients = traffic == .oneClient ? 1 : Int.random(in: 2...5, using: &walk.random)
        walk.clients = (0..<clients).map { WalkClient(address: UInt64($0 + 1)) }
        let count = traffic == .threeTargets || traffic == .everyFourSeconds ? 3 : Int.random(in: 6...12, using: &walk.random)
        let routes: [Int?] = Bool.random(using: &walk.random) ? [nil] : [nil, 0, 1]
        for key in 0..<count { walk.keys.append(WalkKey(target: "/k\(key)", route: routes[key % routes.count])) }
        let (from, until) = (Int64(20_000), Int64(80_000))
        var isDown = false
        walk.treat = { _, _ in isDown ? kind : .well }
        walk.schedule(
            .change {
                isDown = true
                for key in walk.keys.indices { walk.keys[key].wellSince = nil }
            }, at: from)
        walk.schedule(
            .change {
                isDown = false
                for key in walk.keys.indices { walk.keys[key].wellSince = until }
            }, at: until)
        if traffic == .everyFourSeconds {
            var (time, turn) = (Int64(0), 0)
            while time < 90_000 {
                walk.schedule(.request(client: Int.random(in: 0..<clients, using: &walk.random), key: turn % count), at: time)
                (time, turn) = (time + 4_000, turn + 1)
            }
        } else {
            for key in 0..<count {
                for client in 0..<clients {
                    walk.ask(key, by: client, every: 500...3_000, from: Int64(key * 61 + client * 13), until: 90_000)
                }
            }
        }
        return (walk, kind, from, until)
    }

    @Test("during an outage stored responses are served at once and checks are few; one second after recovery all requests pass", .slow)
    func outages() {
        RandomSchedules.run(Self.walks) {
            outage(&$0)
        } end: { world in
            let (walk, kind, from, until) = world
            // The scope opens within the time of five failures and their timeouts, even with few requests.
            let isOpenAt = from + 30_000 + FailureWalk.firstByte
            walk.run(until: isOpenAt)
            try demand(walk.memory.isDown, "\(kind)")
            walk.run(until: until + 10_000)
            let recheck = walk.settings.recheck
            for answer in walk.answers where answer.asked >= isOpenAt && answer.asked < until {
                try demand(answer.isImmediate, "\(kind): \(answer)")
            }
            // A turn that its client does not use takes a quarter of a recheck.
            for answer in walk.answers where answer.asked > until + recheck * 5 / 4 + 300 {
                try demand(!answer.isImmediate && answer.age < 0, "\(kind): \(answer)")
            }
            try demand(walk.memory.openScopes(now: walk.now).isEmpty, "\(kind)")
            try bounded(walk)
            try evident(walk)
        }
    }

    /// At most one check per key and recheck, and a bounded total number.
    private func bounded(_ walk: FailureWalk) throws {
        var last: [Int: Int64] = [:]
        var window: [Int64] = []
        for check in walk.checks {
            if let before = last[check.key] { try demand(check.at - before >= walk.settings.recheck, "key \(check.key)") }
            last[check.key] = check.at
            window = window.filter { check.at - $0 < walk.settings.recheck } + [check.at]
            try demand(window.count <= 2 * CheckBudget.limit)
        }
    }

    @Test("when 10,000 keys of a route hang, rescues are immediate once the scope is open, and checks stay few", .slow)
    func manyKeys() {
        let walk = FailureWalk(SeededGenerator(seed: 1))
        walk.clients = (1...4).map { WalkClient(address: $0) }
        walk.keys = (0..<10_000).map { WalkKey(target: "/orders/\($0)", route: 0, wellSince: nil) }
        walk.keys += (0..<20).map { WalkKey(target: "/well/\($0)") }
        var isDown = false
        walk.treat = { _, key in isDown && key < 10_000 ? .hang : .well }
        walk.schedule(.change { isDown = true }, at: 10_000)
        for time in stride(from: Int64(0), to: 60_000, by: 10) {
            let client = Int.random(in: 0..<4, using: &walk.random)
            walk.schedule(.request(client: client, key: Int.random(in: 0..<10_000, using: &walk.random)), at: time)
            walk.schedule(.request(client: client, key: 10_000 + Int.random(in: 0..<20, using: &walk.random)), at: time + 5)
        }
        walk.run(until: 60_000)
        let open = walk.memory.openScopes(now: walk.now).filter { $0.scope == .route(0) }
        #expect(open.count == 1)
        let opened = Int64(22_000) + FailureWalk.firstByte
        for answer in walk.answers {
            if answer.key >= 10_000 {
                #expect(answer.age < 0)
            } else if answer.asked > opened {
                #expect(answer.isImmediate)
            }
        }
        for second in stride(from: opened, to: 60_000, by: 1_000) {
            #expect(walk.sent.count { $0.key < 10_000 && $0.at >= second && $0.at < second + 1_000 } <= 20)
        }
    }
}
