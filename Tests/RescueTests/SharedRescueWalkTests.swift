// Random tests of clients with cookies and tokens, through outages and restarts, compared with a small reference. No client gets another
// client's response.

import Reactor
import TestSupport
import Testing

/// The rules of rescues, with simple sets.
private struct Reference {
    struct Copy: Hashable {
        let who: String
        let target: String
    }

    var copies: Set<Copy> = []
    /// By cookies: targets that a client requested before it had these cookies.
    var origins: [String: Set<String>] = [:]

    static let nobody = "|"

    /// Owner of the response that is served while the upstream is down; nil if there is none.
    func rescue(_ client: CookieClient, _ target: String) -> String? {
        let who = client.who
        if copies.contains(Copy(who: who, target: target)) { return who }
        guard copies.contains(Copy(who: Self.nobody, target: target)) else { return nil }
        if target.hasPrefix("/public") { return Self.nobody }
        return client.authorization == nil && origins[client.jar]?.contains(target) == true ? Self.nobody : nil
    }

    mutating func answered(_ before: CookieClient, _ after: CookieClient, _ target: String) {
        copies.insert(Copy(who: before.who, target: target))
        if before.authorization != nil {
            origins[before.jar] = nil
        } else if before.jar != after.jar {
            let targets = before.jar.isEmpty ? [target] : origins[before.jar] ?? []
            origins[after.jar, default: []].formUnion(targets)
        }
    }
}

extension CookieClient {
    fileprivate var jar: String { CookieNames.canonical(cookies.map { "\($0)=\($1)" }.joined(separator: ";")) }
    fileprivate var who: String { "\(jar)|\(authorization ?? "")" }
}

private struct Walk {
    private static let targets = ["/users", "/posts", "/public/a"]

    private let play: ProxyPlay
    private(set) var reference = Reference()
    private var clients = [CookieClient](repeating: CookieClient(), count: 5)
    private var isUp = true
    private var value = 0
    /// Number of requests while the upstream is up, and of those that reached it.
    private(set) var (asUp, asked) = (0, 0)

    init() throws {
        play = try ProxyPlay(cookieOrigin())
        clients[3].authorization = "Bearer 3"
        clients[4].authorization = "Bearer 4"
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        let number = random.below(clients.count)
        let target = random.pick(Self.targets)
        let before = clients[number]
        switch random.below(100) {
        case 0..<4: try play.turnUpstream(&isUp)
        case 4..<5: try play.restart()
        case 5..<9: clients[number].cookies = [:]
        case 9..<12:
            value += 1
            clients[number].cookies["_ga"] = "\(value)"
        case 12..<15:
            value += 1
            let path = random.pick(["/login", "/reject"])
            let given = path == "/login" ? [("Sec-Give", "SID=\(value)")] : []
            let response = try clients[number].request("POST", path, play, given, content: "x")
            // A write that the upstream rejects or never receives changes nothing.
            if response.isFromUpstream, !before.jar.isEmpty { reference.origins[before.jar] = nil }
            if !isUp, let target = reference.origins[before.jar]?.min() { try get(target, number, []) }
        default:
            var more: [(String, String)] = []
            if isUp, random.isTrue(oneIn: 3) {
                value += 1
                more = [("Sec-Give", "\(random.pick(["SID", "lb", "_ga"]))=\(value)")]
            }
            try get(target, number, more)
        }
    }

    private mutating func get(_ target: String, _ number: Int, _ more: [(String, String)]) throws {
        let before = clients[number]
        let response = try clients[number].request(target, play, more)
        let who = response.status == 200 ? response.text.split(separator: "\"").dropFirst(3).first.map(String.init) : nil
        // The outage may be remembered a little longer. Then the rules of an outage apply.
        let isAsked = isUp && response.isFromUpstream
        if isUp { (asked, asUp) = (asked + (isAsked ? 1 : 0), asUp + 1) }
        try demand(
            who == (isAsked ? before.who : reference.rescue(before, target)),
            "up: \(isUp), \(response.status) \(response["Cache-Status"] ?? ""), \(before), \(target)")
        if isAsked { reference.answered(before, clients[number], target) }
    }
}

@Suite("Several users, cookies and outages", .slow)
struct SharedRescueWalk {
    @Test("random schedules: every client receives what the rules allow and never another user's response")
    func walk() {
        var (copies, asked, asUp) = (0, 0, 0)
        let isWhole = RandomSchedules.run(2, steps: 400) { _ in
            try Walk()
        } step: {
            try $0.step(&$1)
        } end: {
            (copies, asked, asUp) = (copies + $0.reference.copies.count, asked + $0.asked, asUp + $0.asUp)
        }
        #expect(!isWhole || (copies > 20 && asked * 100 > asUp * 95), "\(copies) copies; \(asked) of \(asUp) while it was up")
    }
}
