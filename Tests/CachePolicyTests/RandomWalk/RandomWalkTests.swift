// A random walk of requests, responses and time: the rules and the reference cache must agree at every step.

import HTTPCore
import TestSupport
import Testing

@testable import CachePolicy

struct Walk {
    static let users = ["", "a", "b"]
    private static let targets = ["/a", "/b", "/c?x=1"]
    private static let numbers = ["0", "1", "5", "30", "\"20\"", "-1", "x", "99999999999", ""]

    /// Generator of the current step.
    fileprivate var random = SeededGenerator(seed: 0)
    private(set) var now = 1_795_000_000

    mutating func chance(_ percent: Int) -> Bool { random.chance(percent) }
    mutating func pick<T>(_ from: [T]) -> T { random.pick(from) }

    mutating func advance() { if chance(70) { now += pick([0, 1, 3, 10, 40]) } }

    static func date(_ seconds: Int) -> String { String(decoding: HTTPDate.format(Int64(seconds)), as: UTF8.self) }

    static func seconds(of date: String) -> Int? { HTTPDate.parse(Array(date.utf8)[...], now: 1_795_000_000).map { Int($0) } }

    private mutating func directives(_ names: [String], _ plain: [String]) -> [Line] {
        var lines: [Line] = []
        while chance(60) {
            var members: [String] = []
            repeat {
                let name = chance(50) ? pick(names) + "=" + pick(Self.numbers.dropLast()) : pick(names + plain)
                members.append(chance(10) ? name.uppercased() : name)
            } while chance(40)
            lines.append(Line("cache-control", members.joined(separator: chance(50) ? ", " : ",")))
        }
        return lines
    }

    mutating func request() -> WalkRequest {
        var request = WalkRequest(method: chance(90) ? "GET" : pick(["POST", "PUT", "OPTIONS", "FROB"]), target: pick(Self.targets))
        if chance(25) {
            request.lines = directives(
                ["max-age", "min-fresh", "max-stale", "stale-if-error"], ["no-cache", "no-store", "max-stale", "x"])
        }
        if chance(50) { request.lines.append(Line("x-a", pick(["1", "2"]))) }
        if chance(50) { request.lines.append(Line("x-b", pick(["1", "2"]))) }
        if chance(20) { request.lines.append(Line("authorization", pick(["a", "b"]))) }
        return request
    }

    mutating func answer(status: Int? = nil) -> WalkResponse {
        let asked = now
        now += pick([0, 0, 1, 3])
        var answer = WalkResponse(
            status: status ?? pick([200, 200, 200, 203, 204, 206, 299, 301, 302, 404, 410, 500, 501]), lines: [], requestTime: asked,
            responseTime: now)
        answer.lines = directives(
            ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"],
            [
                "no-store", "no-cache", "private", "public", "must-revalidate", "proxy-revalidate", "must-understand", "immutable",
                "x=no-store",
            ])
        if chance(70) { answer.lines.append(Line("date", Self.date(now - pick([0, 0, 2, 50])))) }
        if chance(25) { answer.lines.append(Line("expires", pick(["0", Self.date(now + 20), Self.date(now - 5), Self.date(now + 500)]))) }
        if chance(15) { answer.lines.append(Line("age", pick(["0", "7", "soon"]))) }
        if chance(30) { answer.lines.append(Line("vary", pick(["x-a", "X-B", "x-a, X-b", "*", "x-a,*", "x-b,x-a", "authorization"]))) }
        return answer
    }
}

private struct ComparedCaches {
    var walk = Walk()
    var rules: PolicyCache
    var reference: ReferenceCache
    var (served, stoodIn) = (0, 0)

    init(hasPartitions: Bool) {
        rules = PolicyCache(hasPartitions: hasPartitions)
        reference = ReferenceCache(hasPartitions: hasPartitions)
    }

    mutating func step(_ random: SeededGenerator) throws {
        walk.random = random
        walk.advance()
        let request = walk.request()
        let isGet = request.method == "GET"
        let (decision, expected) = isGet ? (rules.decide(request, walk.now), reference.decide(request, walk.now)) : (.nothing, .nothing)
        let found = { [reference] in "for \(request) of \(String(describing: reference.found(request)))" }
        try demand(decision == expected, "\(decision), not \(expected), \(found())")
        let standsIn = isGet && rules.mayStandIn(request, walk.now)
        try demand(standsIn == (isGet && reference.mayStandIn(request, walk.now)), "may stand in: \(standsIn), \(found())")
        if standsIn { stoodIn += 1 }
        if case .serve = decision { served += 1 } else { try ask(request, isFound: decision != .nothing) }
    }

    /// The upstream responds with a 304, or with a response that may be stored.
    private mutating func ask(_ request: WalkRequest, isFound: Bool) throws {
        if isFound, walk.chance(40) {
            // A 304 with another Vary would need another cache key. An upstream that sent one would contradict itself.
            var answer = walk.answer(status: 304)
            answer.lines.removeAll { $0.name == "vary" }
            rules.freshen(request, answer)
            reference.freshen(request, answer)
            return
        }
        let answer = walk.answer()
        let may = rules.mayStore(request, answer)
        try demand(may == reference.mayStore(request, answer), "stored: \(may), for \(request) and \(answer)")
        rules.invalidate(request, answer.status)
        reference.invalidate(request, answer.status)
        if may {
            rules.store(request, answer)
            reference.store(request, answer)
        }
    }
}

@Suite("Random walk against a reference cache (RFC 9111)")
struct RandomWalkTests {
    @Test("the cache and the reference make the same decision at every step", .slow, arguments: [true, false])
    func agree(hasPartitions: Bool) {
        var (served, stoodIn) = (0, 0)
        let isWhole = RandomSchedules.run(50, steps: 500) { _ in
            ComparedCaches(hasPartitions: hasPartitions)
        } step: {
            try $0.step($1)
        } end: {
            (served, stoodIn) = (served + $0.served, stoodIn + $0.stoodIn)
        }
        #expect(!isWhole || (served > 1_250 && stoodIn > 1_250), "\(served) \(stoodIn)")
    }
}
