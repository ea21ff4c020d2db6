// A random walk of several users, each with several accounts that a field chooses which nobody knows, through outages and restarts, at once and one after
// the other: nobody ever gets another account's response, however it is found; and fields of client libraries that change with each request never cost
// anybody a copy. The seed is fixed; CISTERN_SOAK_STEPS sets the length, CISTERN_SOAK_SEED another seed.

import Reactor
import TestSupport
import Testing

@Suite("Accounts chosen by unlisted fields, and outages", .slow)
struct UnknownFieldWalk {
    private static let names = selectingFields + ["X-Space", "Notion-Version", "X-Project-Key"]
    private static let harmless = [
        "X-Request-Id", "traceparent", "sentry-trace", "CF-Ray", "Sec-CH-UA", "X-Amz-Date", "baggage", "Priority",
    ]
    /// What responses say beside their account, by target. `/any` is the same for all accounts, as it says.
    private static let targets = ["/silent", "/tagged", "/varying", "/private", "/any"]

    private struct Who: Hashable {
        let token: String?
        let account: String?
        let target: String

        func fields(_ name: String) -> [(String, String)] {
            (token.map { [("Authorization", $0)] } ?? []) + (account.map { [(name, $0)] } ?? [])
        }

        /// What the upstream tells it.
        var text: String { target == "/any" ? "\"any\"" : "\"\(token ?? "") \(account ?? "")\"" }
    }

    private static func origin(_ name: String) -> ScriptedOrigin {
        ScriptedOrigin { request in
            let text = "\"\(request["Authorization"] ?? "") \(request[name] ?? "")\""
            switch request.target {
            case "/any": return [.json("\"any\"", ["Cache-Control: max-age=1, public"])]
            case "/tagged":
                // One tag for all: as of an upstream that makes it of a version number.
                guard request["If-None-Match"] == nil else { return [.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")] }
                return [.json(text, ["ETag: \"1\""])]
            case "/varying": return [.json(text, ["Vary: Origin, \(name), Authorization", "Cache-Control: max-age=5"])]
            case "/private": return [.json(text, ["Cache-Control: private, max-age=5"])]
            default: return [.json(text)]
            }
        }
    }

    @Test("nobody gets what is another account's, and nobody loses his own", arguments: 0..<4)
    func walk(number: Int) throws {
        var random = SeededGenerator(seed: Soak.seed &+ UInt64(number))
        let name = Self.names.randomElement(using: &random) ?? ""
        let play = try ProxyPlay(Self.origin(name))
        var copies: Set<Who> = []
        var isUp = true
        var rescued = 0
        for step in 0..<(Soak.steps ?? 400) {
            let who = Who(
                token: [nil, "Bearer 1", "Bearer 2"].randomElement(using: &random) ?? nil,
                account: [nil, "A", "B", "C"].randomElement(using: &random) ?? nil,
                target: Self.targets.randomElement(using: &random) ?? "")
            let changing = Self.harmless.shuffled(using: &random).prefix(3).map { ($0, "\(step)") }
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<4: try turn(&isUp, play)
            case 4..<5: try play.restart()
            case 5..<8: play.time.advance(by: .seconds(2))
            case 8..<20:
                // At once, from one user for several accounts.
                let crowd = ["A", "B", nil].map { Who(token: who.token, account: $0, target: who.target) }
                let clients = try crowd.map { one in
                    let client = try play.client()
                    let lines = (one.fields(name) + changing).map { "\($0): \($1)\r\n" }.joined()
                    client.send("GET \(one.target) HTTP/1.1\r\nHost: a\r\n\(lines)\r\n")
                    return client
                }
                for (client, one) in zip(clients, crowd) {
                    let response = try #require(client.readResponse())
                    #expect(response.status >= 502 || response.text == one.text, "step \(step): \(one), \(response["Cache-Status"] ?? "")")
                    if isUp, Self.isFromUpstream(response) { note(one, &copies) }
                }
            default:
                let response = try play.get(who.target, who.fields(name) + changing)
                let context = "step \(step): up \(isUp), \(name), \(who), \(response.status), \(response["Cache-Status"] ?? "")"
                #expect(response.status >= 502 || response.text == who.text, "\(context)")
                if isUp, Self.isFromUpstream(response) { note(who, &copies) }
                guard !isUp, copies.contains(who) else { continue }
                rescued += 1
                #expect(response.status == 200, "\(context)")
            }
        }
        #expect(rescued > 20)
    }

    private func note(_ who: Who, _ copies: inout Set<Who>) {
        // Without a user's credentials nothing private is kept.
        if who.target != "/private" || who.token != nil { copies.insert(who) }
    }

    private static func isFromUpstream(_ response: TestResponse) -> Bool {
        response.status == 200 && response["Cache-Status"]?.contains("detail=") != true
    }

    private func turn(_ isUp: inout Bool, _ play: ProxyPlay) throws {
        isUp.toggle()
        guard isUp else { return play.origin.down() }
        play.origin.up()
        // Past all that is remembered of the outage.
        play.time.advance(by: .seconds(120))
        for attempt in 0..<100 where try play.get("/warm/\(attempt)").status == 200 { return }
        Issue.record("the upstream is not found again")
    }
}
