// Tests of proposals: from observations alone, with enough evidence, never where freshness would harm, and as accepted settings.

import CachePolicy
import Explanation
import Settings
import Testing

@testable import Advice

@Suite("Advice: proposals")
struct ProposalTests {
    /// 1,000 requests in two hours; the data changed rarely.
    private static func counts(_ change: (inout ObservedCounts) -> Void = { _ in }) -> ObservedCounts {
        var counts = ObservedCounts()
        (counts.firstAt, counts.lastAt) = (0, 7_800_000)
        (counts.requests, counts.followed, counts.unchanged, counts.changed, counts.shortestChange) = (1_000, 1_000, 997, 3, 40_000)
        let saved: [UInt32] = [100, 200, 400, 600, 830, 850, 900, 950]
        let outdated: [UInt32] = [0, 0, 0, 1, 2, 5, 20, 50]
        for (index, seconds) in FreshnessCandidates.seconds.enumerated() {
            counts.effects[index] = FreshnessEffect(saved: saved[index], outdated: outdated[index], longest: UInt32(seconds * 900))
        }
        change(&counts)
        return counts
    }

    private static let rest = AdvisedSettings(routes: [AdvisedRoute()], firstByteTimeout: 30_000)

    private static func proposals(
        _ settings: AdvisedSettings = rest, names: [ComparedName] = [], varying: [String] = [],
        _ change: (inout ObservedCounts) -> Void = { _ in }
    ) -> [Proposal] {
        let summary = ObservedSummary(
            route: 0, template: "/users/*", counts: counts(change), names: names, varying: varying.map { Array($0.utf8) })
        return Proposals.all(AdvisedPaths.all([summary], settings), settings)
    }

    @Test("the shortest lifetime that saves nearly as much as the best acceptable one is proposed, with its evidence and effect")
    func freshness() throws {
        let proposal = try #require(Self.proposals().first)
        #expect(proposal.kind == .freshness && proposal.setting == "routes.freshness.default" && proposal.value == "30s")
        #expect(proposal.evidence == "1,000 requests in 2 h 10 min: data changed 3 times, at least 40 s apart")
        #expect(
            proposal.effect
                == "would have saved at least 83 % of the requests; 0.2 % of the responses would have been out of date, by 27 s at most")
        #expect(
            ProposedSettings.yaml([proposal], Self.rest)
                == ["routes:", "  - name: users", "    path: \"/users/*\"", "    freshness:", "      default: 30s"])
        #expect(proposal.saved == 830)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let change: @Sendable (inout ObservedCounts) -> Void

        init(_ title: String, _ change: @escaping @Sendable (inout ObservedCounts) -> Void) {
            (testDescription, self.change) = (title, change)
        }
    }

    @Test(
        "no freshness is proposed without enough evidence, or where it would harm",
        arguments: [
            Row("few requests") { $0.requests = 99 }, Row("a short observation") { $0.lastAt = 599_000 },
            Row("few followed fetches") { $0.followed = 99 }, Row("stated by the upstream") { $0.stated = 1 },
            Row("no-store") { $0.unstored[.noStore] = 1 }, Row("private") { $0.unstored[.privateResponse] = 1 },
            Row("Authorization without a partition") { $0.unstored[.authorized] = 1 },
            Row("an unknown user") { $0.unstored[.userUnknown] = 1 },
            Row("one-time credentials") { $0.unstored[.oneTimeCredentials] = 1 }, Row("cookies") { $0.unstored[.setCookie] = 1 },
            Row("data that changes often") { for index in 0..<8 { $0.effects[index].outdated = 11 } },
            Row("few of the requests are followed") { $0.requests = 10_000 },
            Row("little to save") { for index in 0..<8 { $0.effects[index].saved = 99 } },
        ])
    func noFreshness(_ row: Row) {
        #expect(!Self.proposals(Self.rest, row.change).contains { $0.kind == .freshness })
    }

    @Test("a lifetime is proposed only above the present one, and for a tenth of the observed time at most")
    func bounds() {
        let present = AdvisedSettings(routes: [AdvisedRoute(lifetime: 30)], firstByteTimeout: 30_000)
        #expect(Self.proposals(present).first?.value == "60s")
        #expect(Self.proposals { $0.lastAt = 600_000 }.first?.value == "30s")
        #expect(Self.proposals { ($0.lastAt, $0.effects[4].saved) = (600_000, 700) }.first?.value == "60s")
        let fresh = AdvisedSettings(routes: [AdvisedRoute(lifetime: 900)], firstByteTimeout: 30_000)
        #expect(Self.proposals(fresh).isEmpty)
        let limited = AdvisedSettings(routes: [AdvisedRoute(maximum: 20)], firstByteTimeout: 30_000)
        #expect(Self.proposals(limited).first?.value == "10s")
    }

    @Test("an unnamed pattern counts for all templates that it covers")
    func covered() {
        func paths(_ other: String, _ change: (inout ObservedCounts) -> Void, route: UInt16 = 0) -> [String] {
            let settings = AdvisedSettings(
                routes: [AdvisedRoute(), AdvisedRoute(name: "named", pattern: "/users/me")], firstByteTimeout: 30_000)
            let summaries = [
                ObservedSummary(route: 0, template: "/users/*", counts: Self.counts()),
                ObservedSummary(route: route, template: other, counts: Self.counts(change)),
            ]
            return Proposals.all(AdvisedPaths.all(summaries, settings), settings).filter { $0.kind == .freshness }.map(\.path).sorted()
        }
        #expect(paths("/users/me", { _ in }) == ["/users/*", "/users/me"])
        #expect(paths("/users/me", { $0.unstored[.privateResponse] = 1 }).isEmpty)
        #expect(paths("/users/me", { $0.stated = 1 }, route: 1) == ["/users/*"])
        #expect(paths("/users/me/posts", { $0.stated = 1 }) == ["/users/*"])
        #expect(paths("/*/me", { $0.stated = 1 }) == ["/users/*"])
        // Only this part changes often.
        let few: (inout ObservedCounts) -> Void = { counts in
            (counts.requests, counts.followed) = (20, 20)
            for index in 0..<8 { (counts.effects[index].saved, counts.effects[index].outdated) = (10, 1) }
        }
        #expect(paths("/users/me", few).isEmpty)
        let fewer: (inout ObservedCounts) -> Void = { counts in
            few(&counts)
            counts.followed = 19
        }
        #expect(paths("/users/me", fewer) == ["/users/*"])
    }

    @Test("a candidate that harms one target is not proposed; partitioned data is mentioned")
    func targets() {
        func proposals(_ unsteady: Set<Int>, _ change: (inout ObservedCounts) -> Void = { _ in }) -> [Proposal] {
            let one = ObservedSummary(route: 0, template: "/a", counts: Self.counts(change), unsteady: unsteady)
            return Proposals.all(AdvisedPaths.all([one], Self.rest), Self.rest)
        }
        #expect(proposals([4, 5]).map(\.value) == ["10s"])
        #expect(proposals(Set(0..<8)).isEmpty)
        let effect = proposals([], { $0.partitioned = 1 }).first?.effect
        #expect(effect?.hasSuffix("; after withdrawn access, a user may read stored responses for up to 30s") == true)
    }

    @Test("all paths of a named route count together, and one obstacle applies to all")
    func routes() {
        let settings = AdvisedSettings(
            routes: [AdvisedRoute(name: "api", pattern: "/api/**"), AdvisedRoute()], firstByteTimeout: 30_000)
        let summaries = ["/api/a", "/api/b"].map { ObservedSummary(route: 0, template: $0, counts: Self.counts()) }
        let proposals = Proposals.all(AdvisedPaths.all(summaries, settings), settings)
        #expect(proposals.map(\.route) == ["api"] && proposals[0].saved == 1_660)
        #expect(
            ProposedSettings.yaml(proposals, settings).prefix(4)
                == ["routes:", "  # add to the existing route api", "  - name: api", "    path: \"/api/**\""])
        let personal = ObservedSummary(route: 0, template: "/api/me", counts: Self.counts { $0.unstored[.privateResponse] = 1 })
        #expect(Proposals.all(AdvisedPaths.all(summaries + [personal], settings), settings).isEmpty)
        // A path of a route that no longer exists.
        #expect(AdvisedPaths.all([ObservedSummary(route: 7, template: "/x", counts: Self.counts())], settings).isEmpty)
    }

    @Test("an argument or Vary is proposed only if all comparisons were equal")
    func names() {
        func name(_ text: String, isField: Bool = false, equal: UInt32 = 50, different: UInt32 = 0, doubtful: UInt32 = 0) -> ComparedName {
            ComparedName(Array(text.utf8), isField: isField, equal: equal, different: different, doubtful: doubtful)
        }
        func kinds(_ names: [ComparedName], varying: [String] = []) -> [Proposal.Kind] {
            Self.proposals(names: names, varying: varying) { $0.stated = 1 }.map(\.kind)
        }
        #expect(kinds([name("utm_source")]) == [.argument])
        #expect(kinds([name("page", different: 1), name("few", equal: 49), name("doubtful", equal: 99, doubtful: 2)]).isEmpty)
        #expect(kinds([name("changed", doubtful: 1)]) == [.argument])
        #expect(kinds([name("x-device", isField: true)], varying: ["x-device"]) == [.vary])
        #expect(kinds([name("x-device", isField: true)], varying: ["x-device", "accept-language"]).isEmpty)
        let present = AdvisedSettings(routes: [AdvisedRoute(ignoredArguments: ["fbclid*"])], firstByteTimeout: 30_000)
        let proposed = Self.proposals(present, names: [name("a[b]"), name("fbclid2")]) { $0.stated = 1 }
        #expect(ProposedSettings.yaml(proposed, present).last == "      ignore: [\"fbclid*\", \"a[b]\"]")
    }

    @Test("repeated 404s, a slow upstream and timeouts are proposed with their settings")
    func others() {
        let negative = Self.proposals { ($0.stated, $0.missing, $0.missingAgain) = (1, 100, 60) }
        #expect(negative.map(\.setting) == ["routes.negative"] && negative[0].effect.contains("60 %"))
        let slow = Self.proposals {
            $0.stated = 1
            $0.waits[ObservedCounts.index(ofWait: 1_400)] = 60
            $0.waits[ObservedCounts.index(ofWait: 3_000)] = 40
        }
        #expect(slow.map(\.setting) == ["routes.rescue_after"] && slow[0].value == "5s", "\(slow)")
        let timeout = Self.proposals {
            $0.stated = 1
            $0.failures[UInt8(MetricNames.rescueCauses.firstIndex(of: "connection_read_timeout") ?? 0)] = 10
            $0.waits[ObservedCounts.index(ofWait: 20_000)] = 10
            $0.waits[0] = 900
        }
        #expect(timeout.map(\.setting) == ["upstream.first_byte_timeout"] && timeout[0].value == "60s", "\(timeout)")
    }

    @Test("names need enough comparisons on each part with them, and Vary needs all its fields")
    func parts() {
        let settings = AdvisedSettings(routes: [AdvisedRoute(name: "api", pattern: "/**")], firstByteTimeout: 30_000)
        func kinds(_ other: [ComparedName], varying: [String] = [], untracked: Bool = false) -> [Proposal.Kind] {
            let names = [("utm", false), ("x-a", true)].map { ComparedName(Array($0.utf8), isField: $1, equal: 90) }
            let field = [Array("x-a".utf8)]
            let summaries = [
                ObservedSummary(route: 0, template: "/a", counts: Self.counts { $0.stated = 1 }, names: names, varying: field),
                ObservedSummary(
                    route: 0, template: "/b", counts: Self.counts(), names: other, varying: varying.map { Array($0.utf8) },
                    hasUntrackedVary: untracked),
            ]
            return Proposals.all(AdvisedPaths.all(summaries, settings), settings).map(\.kind).sorted { $0.rawValue < $1.rawValue }
        }
        #expect(kinds([]) == [.argument, .vary])
        #expect(kinds([], untracked: true) == [.argument])
        #expect(kinds([], varying: ["x-a"]) == [.argument])
        #expect(kinds([ComparedName(Array("utm".utf8), isField: false, equal: 49)]) == [.vary])
        #expect(kinds([ComparedName(Array("x-a".utf8), isField: true, equal: 49)], varying: ["x-a"]) == [.argument])
    }

    @Test("all proposals together are accepted as settings", arguments: [1_500, 3_000_000] as [Int64])
    func accepted(_ limit: Int64) {
        let names = [
            ComparedName(Array("a[b]$".utf8), isField: false, equal: 90), ComparedName(Array("utm".utf8), isField: false, equal: 90),
            ComparedName(Array("x-a".utf8), isField: true, equal: 90),
        ]
        let settings = AdvisedSettings(
            routes: [
                AdvisedRoute(name: "api", pattern: "/api/\"x/**", ignoredArguments: ["q\"\\*"], ignoredDirectives: ["no-cache"]),
                AdvisedRoute(name: "users", pattern: "/none"), AdvisedRoute(rescueAfter: limit),
            ], firstByteTimeout: max(5_000, limit))
        let counts = Self.counts {
            ($0.missing, $0.missingAgain) = (100, 60)
            $0.waits[ObservedCounts.index(ofWait: 4_000)] = 200
            $0.waits[$0.waits.count - 1] = limit > 5_000 ? 2_000 : 0
            $0.failures[UInt8(MetricNames.rescueCauses.firstIndex(of: "connection_read_timeout") ?? 0)] = 10
        }
        let paths = ["/*/*", "/users/*", "/users", "/", "/v1/a.b_c-d/*/**", "/users/", "/*/**", "/users/me"]
        let summaries = (["/api/x"] + paths).enumerated().map { index, path in
            ObservedSummary(route: index == 0 ? 0 : 2, template: path, counts: counts, names: names, varying: [Array("x-a".utf8)])
        }
        let proposals = Proposals.all(AdvisedPaths.all(summaries, settings), settings)
        let yaml = ProposedSettings.yaml(proposals, settings)
        let patterns = yaml.filter { $0.hasPrefix("    path:") }
        let places = ["me", "*"].map { last in patterns.firstIndex(of: "    path: \"/users/\(last)\"") ?? 9 }
        #expect(patterns.count == 9 && places[0] < places[1] && places[1] < 9)
        #expect(patterns.last == "    path: \"/*/**\"" && yaml.contains("      ignore: [no-cache, vary]"))
        #expect(yaml.contains("      ignore: [\"q\\\"\\\\*\", \"a[b]$\", \"utm\"]"), "\(yaml)")
        var text = "upstream:\n  url: \"https://api.example.com\"\n" + yaml.joined(separator: "\n") + "\n"
        text = text.replacing("\nupstream:\n", with: "\n")
        var reader = SettingsReader()
        reader.read(file: "advised.yaml", text: Array(text.utf8))
        reader.finish()
        #expect(reader.mistakes.isEmpty, "\(text)\n\(reader.mistakes)")
    }

    @Test("quantiles of waiting times are upper bounds")
    func quantiles() {
        var counts = ObservedCounts()
        #expect(counts.wait(0.5) == nil)
        for milliseconds in 1...100 as ClosedRange<Int64> { counts.noteRequest(at: 0, firstByte: milliseconds * 1_000) }
        counts.noteRequest(at: 0, firstByte: 900_000_000)
        #expect(counts.wait(0.5) == 64 && counts.wait(0.95) == 96 && (counts.wait(1) ?? 0) > 98_304)
        #expect(counts.waits(above: 64) == 37)
    }
}
