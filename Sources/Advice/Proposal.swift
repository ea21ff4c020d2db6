// Proposes settings for observed paths: pure, so that the evidence alone determines the proposals.

import Explanation

public struct Proposal: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        case freshness, argument, vary, negative, slow, timeout
    }

    public let kind: Kind
    /// Name of the route that has the setting; empty if the setting needs a new route, or belongs to none.
    public let route: String
    /// Pattern of the paths that it changes.
    public let path: String
    /// As in the list of settings.
    public let setting: String
    public let value: String
    public let evidence: String
    public let effect: String
    /// Requests to the upstream that it would have saved.
    public var saved: UInt64 = 0
    /// Requests on which it has an effect; orders the proposals that save none.
    var affected: UInt64 = 0
}

public enum Proposals {
    public static let limit = 50
    /// Maximum of times in the settings, in seconds.
    static let longestTime: Int64 = 3_600

    /// Returns the proposals, those with the greatest effect first.
    /// - Parameter isShown: selects paths.
    public static func all(
        _ paths: [AdvisedPaths], _ settings: AdvisedSettings, where isShown: (AdvisedPaths) -> Bool = { _ in true }
    ) -> [Proposal] {
        let total = paths.reduce(0) { $0 + UInt64($1.counts.requests) }
        var all = paths.filter { $0.missingEvidence == nil && isShown($0) }.flatMap { one -> [Proposal] in
            let maker = ProposalMaker(paths: one, total: total)
            return [maker.freshness, maker.vary, maker.negative, maker.slow].compactMap { $0 } + maker.arguments
        }
        if paths.allSatisfy(isShown), let timeout = timeout(paths, settings) { all.append(timeout) }
        let sorted = all.sorted { ($1.saved, $1.affected, $0.path, $0.setting) < ($0.saved, $0.affected, $1.path, $1.setting) }
        return Array(sorted.prefix(limit))
    }

    /// The timeout belongs to the upstream, so all paths count.
    private static func timeout(_ paths: [AdvisedPaths], _ settings: AdvisedSettings) -> Proposal? {
        let label = "connection_read_timeout"
        guard let cause = MetricNames.rescueCauses.firstIndex(of: label) else { return nil }
        let failed = paths.reduce(0) { $0 + UInt64($1.counts.failures[UInt8(clamping: cause)] ?? 0) }
        guard failed >= AdviceEvidence.failures, (1..<longestTime * 1_000).contains(settings.firstByteTimeout) else { return nil }
        // Responses that arrive shortly before the timeout show that the upstream is slow rather than broken.
        let late = paths.reduce(0) { $0 + $1.counts.waits(above: settings.firstByteTimeout / 2) }
        guard late >= AdviceEvidence.failures else { return nil }
        let value = "\(min((settings.firstByteTimeout * 2 + 999) / 1_000, longestTime))s"
        return Proposal(
            kind: .timeout, route: "", path: "/**", setting: "upstream.first_byte_timeout", value: value,
            evidence:
                "\(NumberText.count(failed)) requests ended with \(label), and \(NumberText.count(late)) responses came in the second "
                + "half of the timeout (\(NumberText.duration(microseconds: settings.firstByteTimeout * 1_000)))",
            effect: "slow responses arrive instead of an error; clients may wait longer", affected: failed)
    }
}

private struct ProposalMaker {
    let paths: AdvisedPaths
    /// Requests on all paths.
    let total: UInt64

    private var counts: ObservedCounts { paths.covered }

    // MARK: Freshness

    /// The shortest lifetime that saves nearly as much as the best acceptable one.
    var freshness: Proposal? {
        guard paths.obstacle == nil, counts.followed >= AdviceEvidence.requests else { return nil }
        let acceptable = FreshnessCandidates.seconds.indices.filter { index in
            let (seconds, effect) = (FreshnessCandidates.seconds[index], counts.effects[index])
            return seconds > paths.route.lifetime && seconds <= paths.route.maximum ?? .max
                && seconds * AdviceEvidence.lifetimes * 1_000 <= counts.span
                && Int(effect.outdated) * 100 <= Int(counts.followed) * AdviceEvidence.outdatedPercent
                && !paths.isOutdated(with: index)
        }
        guard let best = acceptable.map({ counts.effects[$0].saved }).max(),
            Int(best) * 100 >= Int(counts.requests) * AdviceEvidence.savedPercent,
            let index = acceptable.first(where: { UInt64(counts.effects[$0].saved) * 10 >= UInt64(best) * 9 })
        else { return nil }
        let (value, effect) = ("\(FreshnessCandidates.seconds[index])s", counts.effects[index])
        let saved = UInt64(effect.saved)
        let revoked = counts.partitioned > 0 ? "; after withdrawn access, a user may read stored responses for up to \(value)" : ""
        return Proposal(
            kind: .freshness, route: paths.route.name, path: paths.path, setting: "routes.freshness.default", value: value,
            evidence: "\(paths.extent): \(changes)",
            effect: Self.sentence(effect, of: counts) + (UInt64(counts.requests) < total ? share(saved) : "") + revoked, saved: saved)
    }

    private var changes: String {
        guard counts.changed > 0 else { return "data did not change" }
        let apart = counts.shortestChange == .max ? "" : ", at least \(Self.seconds(counts.shortestChange)) apart"
        return "data changed \(NumberText.count(UInt64(counts.changed), "time", "times"))\(apart)"
    }

    private func share(_ saved: UInt64) -> String {
        NumberText.share(saved, of: total).map { "; that is \($0) of all observed requests" } ?? ""
    }

    static func seconds(_ milliseconds: Int64) -> String { NumberText.duration(microseconds: milliseconds * 1_000) }

    static func sentence(_ effect: FreshnessEffect, of counts: ObservedCounts) -> String {
        let saved = NumberText.share(UInt64(effect.saved), of: UInt64(counts.requests)) ?? "0 %"
        let outdated = NumberText.share(UInt64(effect.outdated), of: UInt64(counts.followed)) ?? "0 %"
        let age =
            effect.outdated == 0
            ? "no response would have been out of date"
            : "\(outdated) of the responses would have been out of date, by \(seconds(Int64(effect.longest))) at most"
        return "would have saved at least \(saved) of the requests; \(age)"
    }

    // MARK: Keys

    var arguments: [Proposal] {
        guard !paths.route.omitsArguments else { return [] }
        return paths.namesWithoutEffect(areFields: false).compactMap { one in
            let name = String(decoding: one.name, as: UTF8.self)
            guard !paths.route.ignores(argument: name) else { return nil }
            return Proposal(
                kind: .argument, route: paths.route.name, path: paths.path, setting: "routes.arguments.ignore", value: name,
                evidence: "\(paths.extent): \(NumberText.count(UInt64(one.equal))) responses equalled one with another value of \(name), "
                    + "and \(Self.doubtful([one]))",
                effect: "requests that differ only in \(name) share one stored response; check that it can never change the response"
                    + share(UInt64(one.equal)),
                saved: UInt64(one.equal))
        }
    }

    /// Ignoring Vary concerns all its fields, so none of them may have made a difference.
    var vary: Proposal? {
        let fields = paths.namesWithoutEffect(areFields: true)
        guard !fields.isEmpty, !paths.route.ignoredDirectives.contains("vary"), !paths.parts.contains(where: \.hasUntrackedVary),
            paths.parts.allSatisfy({ part in
                part.varying.allSatisfy { field in part.names.contains { $0.isField && $0.name == field } }
            }),
            Set(fields.map(\.name)) == Set(paths.parts.flatMap(\.varying))
        else { return nil }
        let equal = fields.reduce(0) { $0 + UInt64($1.equal) }
        let list = fields.map { String(decoding: $0.name, as: UTF8.self) }.sorted().joined(separator: ", ")
        return Proposal(
            kind: .vary, route: paths.route.name, path: paths.path, setting: "routes.freshness.ignore", value: "vary",
            evidence:
                "\(paths.extent): \(NumberText.count(equal)) responses equalled one to a request with another value of \(list), and "
                + Self.doubtful(fields),
            effect: "requests that differ only in these fields share one stored response; check that they can never change the response"
                + share(equal),
            saved: equal)
    }

    private static func doubtful(_ names: [ComparedName]) -> String {
        let count = names.reduce(0) { $0 + UInt64($1.doubtful) }
        return count == 0 ? "none differed" : "\(NumberText.count(count)) differed, probably because the data changed"
    }

    // MARK: Failures and slowness

    var negative: Proposal? {
        let value = ObservedCounts.repeatedWithin / 1_000
        guard Int(counts.missingAgain) >= AdviceEvidence.failures, paths.route.negative < value else { return nil }
        let share = NumberText.share(UInt64(counts.missingAgain), of: UInt64(counts.missing)) ?? ""
        return Proposal(
            kind: .negative, route: paths.route.name, path: paths.path, setting: "routes.negative", value: "\(value)s",
            evidence: "\(paths.extent): \(NumberText.count(UInt64(counts.missing))) responses were 404 or 410, and "
                + "\(NumberText.count(UInt64(counts.missingAgain))) of them repeated one of the last \(value) s",
            effect: "would have saved \(share) of these requests; a new resource may be reported as missing for \(value) s",
            saved: UInt64(counts.missingAgain))
    }

    /// Responses that regularly take longer than the soft deadline are replaced by stored ones although the upstream is healthy.
    var slow: Proposal? {
        let limit = paths.route.rescueAfter
        guard limit > 0, limit < Proposals.longestTime * 1_000, let (half, most) = waits, most > limit, half > limit / 2 else { return nil }
        let late = counts.waits(above: limit)
        guard late >= AdviceEvidence.failures else { return nil }
        let value = "\(min(Self.rounded(most * 3 / 2), Proposals.longestTime))s"
        return Proposal(
            kind: .slow, route: paths.route.name, path: paths.path, setting: "routes.rescue_after", value: value,
            evidence: "\(paths.extent): half of the responses began within \(Self.seconds(half)), 95 % within \(Self.seconds(most)); "
                + "\(NumberText.count(late)) began later than rescue_after (\(Self.seconds(limit)))",
            effect: "clients wait for these responses instead of receiving an older stored one", affected: late)
    }

    private var waits: (half: Int64, most: Int64)? {
        guard let half = counts.wait(0.5), let most = counts.wait(0.95) else { return nil }
        return (half, most)
    }

    /// Whole seconds, rounded up.
    private static func rounded(_ milliseconds: Int64) -> Int64 { (milliseconds + 999) / 1_000 }
}

extension AdvisedPaths {
    /// Describes the effect of a candidate.
    public func sentence(_ candidate: Int) -> String { ProposalMaker.sentence(counts.effects[candidate], of: counts) }
}
