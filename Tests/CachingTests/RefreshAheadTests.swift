// Tests which hits refresh a stored response before it becomes stale. Without sockets.

import CachePolicy
import Testing

@testable import ReverseProxy

@Suite("The refresh-ahead rule")
struct RefreshAheadTests {
    private static func rule(percent: Int, hits: Int = 3) throws -> RefreshAhead {
        var route = Route()
        (route.refreshAhead, route.refreshAheadHits) = (percent, hits)
        return try #require(RefreshAhead(Routes([], rest: route)))
    }

    /// Whether each hit at this moment is due for a refresh, by remaining freshness in seconds.
    private static func due(_ rule: inout RefreshAhead, ttl: [Int64], key: UInt8 = 1, now: Int64 = 0) -> [Bool] {
        ttl.map { rule.isDue([key], route: 0, ttl: $0, lifetime: 100, now: Timestamp(seconds: now)) }
    }

    @Test("a refresh is due at the third hit within the last share of the lifetime")
    func dueAtThirdHit() throws {
        var rule = try Self.rule(percent: 10)
        #expect(Self.due(&rule, ttl: [9, 9, 9, 9]) == [false, false, true, true])
    }

    @Test("earlier hits count, but no refresh is due while enough lifetime is left")
    func enoughLifetimeLeft() throws {
        var rule = try Self.rule(percent: 10)
        #expect(Self.due(&rule, ttl: [50, 40, 30, 10, 9]) == [false, false, false, false, true])
    }

    @Test("without a route that uses refresh_ahead nothing is counted; other routes never trigger a refresh")
    func off() throws {
        #expect(RefreshAhead(Routes([], rest: Route())) == nil)
        var asking = Route()
        (asking.pattern, asking.refreshAhead) = (RoutePattern("/asking"), 10)
        var rule = try #require(RefreshAhead(Routes([asking], rest: Route())))
        let due = (0..<4).map { _ in rule.isDue([1], route: 1, ttl: 1, lifetime: 100, now: Timestamp(seconds: 0)) }
        #expect(due == [false, false, false, false])
    }

    @Test("hits are counted per key and reset when freshness ends")
    func counting() throws {
        var rule = try Self.rule(percent: 10, hits: 2)
        #expect(Self.due(&rule, ttl: [5], key: 1) == [false])
        #expect(Self.due(&rule, ttl: [5], key: 2) == [false])
        #expect(Self.due(&rule, ttl: [1], key: 1, now: 4) == [true])
        #expect(Self.due(&rule, ttl: [5], key: 1, now: 5) == [false])
    }
}
