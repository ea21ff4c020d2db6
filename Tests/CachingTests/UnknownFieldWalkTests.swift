// Random tests of users with several accounts, which an unknown field selects, through outages, restarts and concurrent requests. No
// account gets another account's response. Fields that change with each request never prevent the use of a stored response.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

private struct Walk {
    private static let names = selectingFields + ["X-Space", "Notion-Version", "X-Project-Key"]
    private static let harmless = [
        "X-Request-Id", "traceparent", "sentry-trace", "CF-Ray", "Sec-CH-UA", "X-Amz-Date", "baggage", "Priority",
    ]
    /// Targets with different response fields. `/any` is equal for all accounts and declares it.
    private static let targets = ["/silent", "/tagged", "/varying", "/private", "/any"]

    private struct Who: Hashable {
        let token: String?
        let account: String?
        let target: String

        func fields(_ name: String) -> [(String, String)] {
            (token.map { [("Authorization", $0)] } ?? []) + (account.map { [(name, $0)] } ?? [])
        }

        /// Content that the upstream sends for this request.
        var text: String { target == "/any" ? "\"any\"" : "\"\(token ?? "") \(account ?? "")\"" }
    }

    private static func origin(_ name: String) -> ScriptedOrigin {
        ScriptedOrigin { request in
            let text = "\"\(request["Authorization"] ?? "") \(request[name] ?? "")\""
            switch request.target {
            case "/any": return [.json("\"any\"", ["Cache-Control: max-age=1, public"])]
            case "/tagged":
                // One entity tag for all accounts, like an upstream that derives it from a version number.
                guard request["If-None-Match"] == nil else { return [.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")] }
                return [.json(text, ["ETag: \"1\""])]
            case "/varying": return [.json(text, ["Vary: Origin, \(name), Authorization", "Cache-Control: max-age=5"])]
            case "/private": return [.json(text, ["Cache-Control: private, max-age=5"])]
            default: return [.json(text)]
            }
        }
    }

    private let name: String
    private let play: ProxyPlay
    private var copies: Set<Who> = []
    private var isUp = true
    private var number = 0
    private(set) var rescued = 0

    init(_ random: inout SeededGenerator) throws {
        name = random.pick(Self.names)
        play = try ProxyPlay(Self.origin(name))
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        number += 1
        let who = Who(
            token: random.pick([nil, "Bearer 1", "Bearer 2"]), account: random.pick([nil, "A", "B", "C"]), target: random.pick(Self.targets)
        )
        let changing = Self.harmless.shuffled(using: &random).prefix(3).map { ($0, "\(number)") }
        switch random.below(100) {
        case 0..<4: try play.turnUpstream(&isUp)
        case 4..<5: try play.restart()
        case 5..<8: play.time.advance(by: .seconds(2))
        case 8..<20: try askAtOnce(who, changing)
        default:
            let response = try play.get(who.target, who.fields(name) + changing)
            try check(response, who)
            guard !isUp, copies.contains(who) else { return }
            rescued += 1
            try demand(response.status == 200, "\(who), \(response["Cache-Status"] ?? "")")
        }
    }

    /// Sends concurrent requests of one user for several accounts.
    private mutating func askAtOnce(_ who: Who, _ changing: [(String, String)]) throws {
        let crowd = ["A", "B", nil].map { Who(token: who.token, account: $0, target: who.target) }
        let clients = try crowd.map { one in
            let client = try play.client()
            let lines = (one.fields(name) + changing).map { "\($0): \($1)\r\n" }.joined()
            client.send("GET \(one.target) HTTP/1.1\r\nHost: a\r\n\(lines)\r\n")
            return client
        }
        for (client, one) in zip(clients, crowd) {
            guard let response = client.readResponse() else { throw ScheduleFailure("no response to \(one)") }
            try check(response, one)
        }
    }

    private mutating func check(_ response: TestResponse, _ who: Who) throws {
        let status = response["Cache-Status"] ?? ""
        try demand(response.status >= 502 || response.text == who.text, "up \(isUp), \(name), \(who), \(response.status), \(status)")
        // Private responses are stored only for requests with credentials.
        if isUp, response.isFromUpstream, who.target != "/private" || who.token != nil { copies.insert(who) }
    }
}

/// Users whose requests have each a value of an unlisted field that is seldom sent again, from few addresses. So the field looks like a
/// changing one.
private struct RareUsers {
    private let play: ProxyPlay
    private var isUp = true
    private var (users, requests) = (0, 0)
    private(set) var rescued = 0

    init(_ random: inout SeededGenerator) throws {
        let freshness: Int64? = random.pick([nil, 5, 60])
        play = try ProxyPlay(
            ScriptedOrigin { request in [.json(request.target.hasPrefix("/me") ? "\"\(request["X-Pass"] ?? "")\"" : "\"news\"")] }
        ) {
            $0.otherRoute.freshness.standard = freshness
        }
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        switch random.below(100) {
        case 0..<3: return try play.turnUpstream(&isUp)
        case 3..<6: return play.time.advance(by: .seconds(random.pick([1, 10, 100])))
        case 6..<7: return try play.restart()
        default: break
        }
        // One in thirty requests is of an earlier user.
        if users == 0 || random.below(30) > 0 { users += 1 }
        let user = random.below(30) == 0 ? random.below(users) : users
        let target = random.pick(["/me", "/me", "/me/cart", "/news", "/news/\(random.below(3))"])
        requests += 1
        var fields = [("X-Pass", "\(user)")]
        if random.below(2) == 0 { fields.append(("X-Request-Time", "\(requests)")) }
        let response = try play.get(target, fields)
        let own = target.hasPrefix("/me") ? "\"\(user)\"" : "\"news\""
        try demand(response.status >= 502 || response.text == own, "\(target), user \(user): \(response.text)")
        if !isUp, response.status == 200, target.hasPrefix("/news") { rescued += 1 }
    }
}

@Suite("Accounts selected by unlisted fields, with outages", .slow)
struct UnknownFieldWalk {
    @Test("no account receives another account's response or loses its own")
    func walk() {
        var rescued = 0
        let isWhole = RandomSchedules.run(4, steps: 400) {
            try Walk(&$0)
        } step: {
            try $0.step(&$1)
        } end: {
            rescued += $0.rescued
        }
        #expect(!isWhole || rescued > 80)
    }

    @Test("no user receives another user's response, however seldom their values are repeated")
    func rareUsers() {
        _ = RandomSchedules.run(6, steps: 400) {
            try RareUsers(&$0)
        } step: {
            try $0.step(&$1)
        }
    }
}
