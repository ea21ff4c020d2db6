// Tests of reasons against a rescue and of outcomes of failures: each setting that `why` names changes the outcome.

import CachePolicy
import Explanation
import JSON
import TestSupport
import Testing

@Suite("Advice on rescues", .play)
struct RescueAdviceTests {
    /// Stores /a, lets it become stale, and requests it while the upstream fails in a way without advice.
    private static func rescue(
        _ settings: String, _ fields: String..., changed: [String: String], first: [(String, String)] = [], then: [(String, String)] = [],
        status: String = "200 OK"
    ) -> AdviceTrial {
        AdviceTrial(settings, .json("{}", status: status, fields), changes: changed.mapValues { .init($0) }) { stage in
            _ = try stage.play.get("/a", first)
            stage.play.time.advance(by: .seconds(100))
            stage.play.origin.react { _ in [.close] }
            _ = try stage.play.get("/a", then.isEmpty ? first : then)
        }
    }

    private static func trial(_ reason: NoRescueReason) -> AdviceTrial {
        let strict = "cache: {policy: strict}"
        let policy = ["cache.policy": "cache: {policy: rescue}"]
        let user = [("Authorization", "Bearer a")]
        return switch reason {
        case .noCache: rescue(strict, "Cache-Control: no-cache", changed: policy)
        case .mustRevalidate: rescue(strict, "Cache-Control: max-age=1, must-revalidate", changed: policy)
        case .proxyRevalidate: rescue(strict, "Cache-Control: max-age=1, proxy-revalidate", changed: policy)
        case .sharedMaxAge: rescue(strict, "Cache-Control: s-maxage=1", changed: policy)
        case .requestNoCache: rescue(strict, "Cache-Control: max-age=1", changed: policy, then: [("Cache-Control", "no-cache")])
        case .staleIfError: rescue(strict, "Cache-Control: max-age=1, stale-if-error=10", changed: policy)
        case .authorized:
            rescue(
                "cache: {credential_fields: []}", "Cache-Control: max-age=1, must-revalidate",
                changed: ["cache.credential_fields": "cache: {credential_fields: [authorization]}"], first: user)
        case .staleFor:
            rescue("cache: {stale_for: 10s}", "Cache-Control: max-age=1", changed: ["cache.stale_for": "cache: {stale_for: 0s}"])
        case .storedError: rescue("cache: {negative: 10s}", changed: [:], status: "404 Not Found")
        case .record: rescue("cache: {mode: record}", "Cache-Control: max-age=1", changed: ["cache.mode": "cache: {mode: live}"])
        }
    }

    @Test("the advised setting permits the rescue", arguments: NoRescueReason.allCases)
    func notRescued(_ reason: NoRescueReason) throws {
        let trial = Self.trial(reason)
        #expect((reason.advice == nil) == (trial.changes.isEmpty || reason == .record))
        let sentence = "The stored response may not be served in an outage: \(reason.sentence)."
        try trial.verify(
            isMet: { $0["result"] == "error" && $0["explanation"]?.array?.contains { $0.string == sentence } == true },
            isHelped: { $0["result"] == "rescued" })
    }

    private static func shared(_ reason: NoSharedRescueReason) -> AdviceTrial {
        let user = [("Authorization", "Bearer a")]
        let setting = "cache.rescue_with_shared"
        let always = [setting: "cache: {rescue_with_shared: always}"]
        func rescue(_ settings: String, _ fields: String..., changed: [String: String]) -> AdviceTrial {
            AdviceTrial(settings, .json("{}", fields), changes: changed.mapValues { .init($0) }) { stage in
                _ = try stage.play.get("/a")
                stage.play.origin.react { _ in [.close] }
                _ = try stage.play.get("/a", user)
            }
        }
        switch reason {
        case .never:
            return rescue(
                "cache: {rescue_with_shared: never}", "Cache-Control: public, max-age=60",
                changed: [setting: "cache: {rescue_with_shared: own}"])
        case .notPublic: return rescue("cache: {rescue_with_shared: public}", "Cache-Control: max-age=60", changed: always)
        case .otherCookies: return rescue("", "Cache-Control: max-age=60", changed: always)
        case .varies:
            return rescue("cache: {policy: strict}", "Cache-Control: public, max-age=60", "Vary: Authorization", changed: [:])
        case .gone:
            return AdviceTrial("", .json("{}", ["Cache-Control: public, max-age=60"]), changes: [:]) { stage in
                _ = try stage.play.get("/a")
                stage.play.time.advance(by: .seconds(61))
                stage.play.origin.react { _ in [.json("{}", status: "410 Gone")] }
                _ = try stage.play.get("/a")
                stage.play.origin.react { _ in [.close] }
                _ = try stage.play.get("/a", user)
            }
        }
    }

    @Test(
        "the advised rescue_with_shared setting permits a rescue with the public stored response",
        arguments: [NoSharedRescueReason.never, .varies, .notPublic, .otherCookies, .gone])
    func notShared(_ reason: NoSharedRescueReason) throws {
        let trial = Self.shared(reason)
        #expect((reason.advice == nil) == trial.changes.isEmpty)
        let sentence = "The response stored for clients without credentials may not be served instead: \(reason.sentence)."
        try trial.verify(
            isMet: { $0["result"] == "error" && $0["explanation"]?.array?.contains { $0.string == sentence } == true },
            isHelped: { $0["result"] == "rescued" })
    }
}
