// GET /-/advice: settings that the observed traffic suggests, with their evidence, and the effect of another freshness lifetime.

import Advice
import CachePolicy
import Decisions
import Explanation
import HTTPCore
import JSON

enum AdvicePage {
    private static let pathLimit = 200
    private static let year = 366 * 86_400

    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["api", "since", "path", "route", "freshness"])
        let seconds = try task.request.count("since", default: year, in: 1...year)
        let trial = task.request["freshness"] == nil ? nil : Int64(try task.request.count("freshness", default: 1, in: 1...year))
        let now = task.server.monotonicMilliseconds
        let (path, route) = (task.request["path"], task.request["route"])
        if let route { try check(route, task) }
        let response = try task.json { api in
            guard let summaries = api.observedTraffic(since: max(0, now - Int64(seconds) * 1_000)) else {
                return [.init("observing", false)] + members([], [], [], nil, task)
            }
            let settings = api.advisedSettings
            let all = AdvisedPaths.all(summaries, settings)
            let isShown = { (one: AdvisedPaths) in
                (path.map(one.begins) ?? true) && (route.map { one.route.name == $0 } ?? true)
            }
            let proposals = Proposals.all(all, settings, where: isShown)
            let yaml = ProposedSettings.yaml(proposals, settings)
            return [.init("observing", true)] + members(all.filter(isShown), proposals, yaml, trial, task)
        }
        task.reply(AdminResponse(response))
    }

    private static func check(_ route: String, _ task: AdminInterface.Task) throws(AdminProblem) {
        let known = try task.apis().flatMap(\.routeNames)
        guard known.contains(route) else {
            throw .notFound("No route is called \(route)\(known.isEmpty ? "" : ": there are \(known.joined(separator: ", "))").")
        }
    }

    private static func members(
        _ paths: [AdvisedPaths], _ proposals: [Proposal], _ yaml: [String], _ trial: Int64?, _ task: AdminInterface.Task
    ) -> [JSONValue.Member] {
        var counts = ObservedCounts()
        for path in paths { counts.add(path.counts) }
        let ahead = task.server.wallMilliseconds - task.server.monotonicMilliseconds
        return [
            .init("since", counts.requests == 0 ? .null : .string(RFC3339.format(milliseconds: counts.firstAt + ahead))),
            .init("seconds", .integer(counts.requests == 0 ? 0 : Int(counts.span / 1_000))),
            .init("requests", .integer(Int(counts.requests))),
            .init("needed", ["requests": .integer(AdviceEvidence.requests), "seconds": .integer(Int(AdviceEvidence.seconds))]),
            .init("proposals", .array(proposals.map(json))),
            .init("yaml", .array(yaml.map { .string($0) })),
            .init("paths", .array(paths.prefix(pathLimit).map(json))),
            .init("trial", trial.map { json($0, paths) } ?? .null),
        ]
    }

    private static func json(_ proposal: Proposal) -> JSONValue {
        [
            "kind": .string(proposal.kind.rawValue), "route": .string(proposal.route), "path": .string(proposal.path),
            "setting": .string(proposal.setting), "value": .string(proposal.value),
            "evidence": .string(proposal.evidence), "effect": .string(proposal.effect),
            "saved_requests": .integer(Int(clamping: proposal.saved)),
        ]
    }

    // MARK: Paths

    private static func json(_ path: AdvisedPaths) -> JSONValue {
        let counts = path.counts
        let wait = { (share: Double) -> JSONValue in counts.wait(share).map { .number(Double($0) / 1_000) } ?? .null }
        return [
            "path": .string(path.path), "route": .string(path.route.name), "requests": .integer(Int(counts.requests)),
            "seconds": .integer(Int(counts.span / 1_000)), "unchanged": .integer(Int(counts.unchanged)),
            "changed": .integer(Int(counts.changed)),
            "shortest_change_seconds": counts.shortestChange == .max ? .null : .number(Double(counts.shortestChange) / 1_000),
            "partitioned": .integer(Int(counts.partitioned)), "missing": .integer(Int(counts.missing)),
            "wait_p50_seconds": wait(0.5), "wait_p95_seconds": wait(0.95), "causes": .array(causes(of: counts)),
            "obstacle": path.obstacle.map { .string($0.sentence) } ?? .null,
            "missing_evidence": path.missingEvidence.map { .string($0) } ?? .null,
        ]
    }

    /// What failed, and why responses were not stored; most frequent first.
    private static func causes(of counts: ObservedCounts) -> [JSONValue] {
        var causes: [(count: UInt32, name: String, sentence: String, advice: WhyAdvice?)] = []
        for (index, count) in counts.failures where MetricNames.rescueCauses.indices.contains(Int(index)) {
            let label = MetricNames.rescueCauses[Int(index)]
            let fault = UpstreamFault(rawValue: label)
            let advice = fault.flatMap { FetchFailure.fault($0, 200).advice(isUnderWay: false) }
            causes.append((count, label, StateSentence.words(ofCause: label), advice))
        }
        for (reason, count) in counts.unstored { causes.append((count, reason.rawValue, reason.sentence, reason.advice)) }
        return causes.sorted { ($1.count, $0.name) < ($0.count, $1.name) }.map { cause -> JSONValue in
            [
                "cause": .string(cause.name), "count": .integer(Int(cause.count)), "sentence": .string(cause.sentence),
                "setting": cause.advice.map { .string($0.setting) } ?? .null, "effect": cause.advice.map { .string($0.effect) } ?? .null,
            ]
        }
    }

    // MARK: Trial

    private static func json(_ lifetime: Int64, _ paths: [AdvisedPaths]) -> JSONValue {
        let candidates = FreshnessCandidates.nearest(lifetime)
        let tried = paths.prefix(pathLimit).map { path -> JSONValue in
            let effects = candidates.map { candidate -> JSONValue in
                let effect = path.counts.effects[candidate]
                return [
                    "freshness_seconds": .integer(Int(FreshnessCandidates.seconds[candidate])),
                    "saved_ratio": .number(path.savedShare(candidate)), "outdated_ratio": .number(path.outdatedShare(candidate)),
                    "outdated_seconds_at_most": .number(Double(effect.longest) / 1_000), "effect": .string(path.sentence(candidate)),
                ]
            }
            return [
                "path": .string(path.path), "route": .string(path.route.name), "requests": .integer(Int(path.counts.requests)),
                "obstacle": path.obstacle.map { .string($0.sentence) } ?? .null, "effects": .array(effects),
            ]
        }
        return ["freshness_seconds": .integer(Int(lifetime)), "paths": .array(tried)]
    }
}
