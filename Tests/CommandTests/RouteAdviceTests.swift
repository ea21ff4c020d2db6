// Tests that advice on a setting that only routes have contains a whole route, if the path has none: as YAML that can be used as it is.

import JSON
import TestSupport
import Testing

@Suite("Advice for paths without a route", .play)
struct RouteAdviceTests {
    @Test(
        "the proposed route makes Cistern store the response; a path that has a route gets no proposal",
        arguments: [
            ("GET", "/users/1?a=1", "routes.freshness.ignore"), ("GET", "/it's/a:%20b,c", "routes.freshness.ignore"),
            ("GET", "/", "routes.freshness.ignore"), ("POST", "/users/1", "routes.methods"),
        ])
    func proposal(_ method: String, _ target: String, _ setting: String) throws {
        func ask(_ settings: String) throws -> JSONValue {
            let control = method == "GET" ? "no-store" : "max-age=60"
            let play = try AdviceTrial.play(settings, ScriptedOrigin { _ in [.json("{}", ["Cache-Control: \(control)"])] })
            let content = method == "GET" ? nil : "{}"
            _ = try play.request(method, target, [("Content-Type", "application/json")], content: content)
            return try #require(JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first)
        }
        let before = try ask("")
        let effect = before["advice"]?.array?.first { $0["setting"]?.string == setting }?["effect"]?.string ?? ""
        let proposal = try #require(effect.firstRange(of: "routes: [").map { String(effect[$0.lowerBound...]) }, "\(effect)")
        #expect(before["stored"] == .bool(false))
        #expect(try ask(proposal)["stored"] == .bool(true), "\(proposal)")
        let routed = try ask("routes: [{name: r, path: /**}]")["advice"]?.array ?? []
        #expect(routed.contains { $0["setting"]?.string == setting } && !"\(routed)".contains("routes: ["))
    }

    @Test("a path with an asterisk gets no proposal, because it would be a pattern for other paths", arguments: ["/**", "/users/*"])
    func wildcard(_ target: String) throws {
        let play = try AdviceTrial.play("", ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-store"])] })
        _ = try play.request("GET", target, [])
        let advice = try play.admin("GET", "/-/why?last=1").text
        #expect(advice.contains("routes.freshness.ignore") && !advice.contains("routes: ["))
    }
}
