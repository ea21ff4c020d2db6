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
        let saved: [UInt32] = [100, 200, 400, 600, 830, 850, 860, 900, 950, 990]
        let outdated: [UInt32] = [0, 0, 0, 1, 2, 5, 9, 20, 50, 90]
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
                == "would have saved 83 % of the upstream's requests; 0.2 % of the responses would have been out of date, by 27 s at most")
        #expect(
            proposal.yaml
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
            Row("data that changes often") { for index in 0..<10 { $0.effects[index].outdated = 11 } },
            Row("little to save") { for index in 0..<10 { $0.effects[index].saved = 99 } },
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
    }

    @Test("all paths of a named route count together, and one obstacle applies to all")
    func routes() {
        let settings = AdvisedSettings(
            routes: [AdvisedRoute(name: "api", pattern: "/api/**"), AdvisedRoute()], firstByteTimeout: 30_000)
        let summaries = ["/api/a", "/api/b"].map { ObservedSummary(route: 0, template: $0, counts: Self.counts()) }
        let proposals = Proposals.all(AdvisedPaths.all(summaries, settings), settings)
        #expect(proposals.map(\.route) == ["api"] && proposals[0].saved == 1_660)
        #expect(proposals[0].yaml.prefix(3) == ["routes:", "  - name: api", "    path: \"/api/**\""])
        let personal = ObservedSummary(route: 0, template: "/api/me", counts: Self.counts { $0.unstored[.privateResponse] = 1 })
        #expect(Proposals.all(AdvisedPaths.all(summaries + [personal], settings), settings).isEmpty)
        // A path of a route that no longer exists.
        #expect(AdvisedPaths.all([ObservedSummary(route: 7, template: "/x", counts: Self.counts())], settings).isEmpty)
    }

    @Test("an argument or Vary is proposed only if all comparisons were equal")
    func names() {
        func name(_ text: String, isField: Bool = false, equal: UInt32 = 50, different: UInt32 = 0) -> ComparedName {
            ComparedName(Array(text.utf8), isField: isField, equal: equal, different: different)
        }
        func kinds(_ names: [ComparedName], varying: [String] = []) -> [Proposal.Kind] {
            Self.proposals(names: names, varying: varying) { $0.stated = 1 }.map(\.kind)
        }
        #expect(kinds([name("utm_source")]) == [.argument])
        #expect(kinds([name("page", different: 1), name("few", equal: 49)]).isEmpty)
        #expect(kinds([name("x-device", isField: true)], varying: ["x-device"]) == [.vary])
        #expect(kinds([name("x-device", isField: true)], varying: ["x-device", "accept-language"]).isEmpty)
        let present = AdvisedSettings(routes: [AdvisedRoute(ignoredArguments: ["fbclid*"])], firstByteTimeout: 30_000)
        #expect(
            Self.proposals(present, names: [name("a[b]")]) { $0.stated = 1 }.first?.yaml.last == "      ignore: [\"fbclid*\", \"a[b]\"]")
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

    @Test("each proposal is accepted as settings")
    func accepted() {
        let names = [
            ComparedName(Array("a[b]$".utf8), isField: false, equal: 90), ComparedName(Array("x-a".utf8), isField: true, equal: 90),
        ]
        for path in ["/users/*", "/", "/*/*", "/v1/a.b_c-d/*/**", "/users/"] {
            for settings in [
                Self.rest,
                AdvisedSettings(routes: [AdvisedRoute(name: "api", pattern: "/api/**"), AdvisedRoute()], firstByteTimeout: 5_000),
            ] {
                let counts = Self.counts {
                    ($0.missing, $0.missingAgain) = (100, 60)
                    $0.waits[ObservedCounts.index(ofWait: 4_000)] = 200
                    $0.failures[UInt8(MetricNames.rescueCauses.firstIndex(of: "connection_read_timeout") ?? 0)] = 10
                }
                let summary = ObservedSummary(route: 0, template: path, counts: counts, names: names, varying: [Array("x-a".utf8)])
                let proposals = Proposals.all(AdvisedPaths.all([summary], settings), settings)
                #expect(proposals.count >= 5)
                for proposal in proposals {
                    var reader = SettingsReader()
                    let text = "upstream: {url: \"https://api.example.com\"}\n" + proposal.yaml.joined(separator: "\n") + "\n"
                    guard proposal.kind != .timeout else {
                        #expect(proposal.yaml == ["upstream:", "  first_byte_timeout: 10s"] || settings.routes.count == 1)
                        continue
                    }
                    reader.read(file: "advised.yaml", text: Array(text.utf8))
                    reader.finish()
                    #expect(reader.mistakes.isEmpty, "\(text)\n\(reader.mistakes)")
                }
            }
        }
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
