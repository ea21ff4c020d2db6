// The state of the proxy and its upstreams as JSON. Prometheus uses /metrics.

import CachePolicy
import Explanation
import Figures
import HTTPCore
import JSON
import ResponseCache
import Upstream

enum StatePages {
    @Sendable static func upstream(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["api"])
        let apis = try task.apis()
        task.server.collectMetrics { snapshot in
            let whole = upstream(snapshot)
            guard task.namesAPIs else { return task.reply(AdminResponse(.object(upstream(apis[0], task.server) + whole))) }
            let lines = apis.map { JSONValue.object([JSONValue.Member("api", .string($0.name))] + upstream($0, task.server)) }
            task.reply(AdminResponse(.object([JSONValue.Member("apis", .array(lines))] + whole)))
        }
    }

    /// Removes failure scopes, so that the upstream is used again: all, or those selected.
    @Sendable static func resetUpstream(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["scope", "api"])
        let name = task.request["scope"]
        let apis = try task.apis()
        let count = apis.reduce(0) { $0 + $1.resetFailures(name) }
        if let name, count == 0, FailureScopeKind(rawValue: name) == nil {
            let open = apis.flatMap { $0.openFailures() }.prefix(10).map(\.name)
            let known = open.isEmpty ? "no failing scope is open" : "there are " + open.joined(separator: ", ")
            throw .notFound("No failing scope is called \(name): \(known).")
        }
        task.reply(AdminResponse(["reset": .integer(count)]))
    }

    private static let scopeLimit = 1_000

    private static func scopes(_ api: any AdministeredAPI, _ server: any AdministeredServer) -> JSONValue {
        let ahead = server.wallMilliseconds - server.monotonicMilliseconds
        return .array(
            api.openFailures().prefix(scopeLimit).map { open -> JSONValue in
                [
                    "scope": .string(open.name), "kind": .string(open.kind),
                    "since": .string(RFC3339.format(milliseconds: open.since + ahead)), "cause": .string(open.cause),
                    "details": open.details.map { .string($0) } ?? .null, "advice": open.advice.map { .string($0) } ?? .null,
                    "setting": .string(open.setting), "effect": .string(open.effect), "wait_seconds": .number(Double(open.wait) / 1000),
                    "partition": open.user.map(partition) ?? .null,
                ]
            })
    }

    private static func addresses(_ api: any AdministeredAPI, _ server: any AdministeredServer) -> JSONValue {
        let ahead = server.wallMilliseconds - server.monotonicMilliseconds
        return .array(
            api.addresses.map { address -> JSONValue in
                [
                    "address": .string(address.url), "up": .bool(address.down == nil),
                    "since": address.down.map { .string(RFC3339.format(milliseconds: $0.since + ahead)) } ?? .null,
                    "error": address.down.map { .string($0.error) } ?? .null,
                ]
            })
    }

    /// The partition as in `why`: the beginning of the keyed hash of a user's credentials.
    private static func partition(_ user: UInt64) -> JSONValue {
        .string(StoredKey.hexadecimal((0..<4).map { UInt8(truncatingIfNeeded: user >> (56 - 8 * $0)) }))
    }

    private static func upstream(_ api: any AdministeredAPI, _ server: any AdministeredServer) -> [JSONValue.Member] {
        [
            .init("origin", .string(api.upstreamURL)), .init("memory", .bool(api.remembersFailures)),
        ] + state(api.report, server) + [.init("addresses", addresses(api, server)), .init("scopes", scopes(api, server))]
            + [.init("last_failure", lastFailure(api, server))]
    }

    private static func lastFailure(_ api: any AdministeredAPI, _ server: any AdministeredServer) -> JSONValue {
        guard let last = api.lastFailure else { return .null }
        let text = { (value: String?) -> JSONValue in value.map { .string($0) } ?? .null }
        let time = RFC3339.format(milliseconds: last.at + server.wallMilliseconds - server.monotonicMilliseconds)
        return [
            "time": .string(time), "cause": .string(last.cause), "details": text(last.details), "certificate": text(last.certificate),
            "advice": text(last.advice), "path": text(last.path), "over": .bool(last.isOver),
        ]
    }

    /// The reported state, with times as in the metrics.
    private static func state(_ report: UpstreamReport, _ server: any AdministeredServer) -> [JSONValue.Member] {
        let ahead = server.wallMilliseconds - server.monotonicMilliseconds
        let time = { (time: Int64?) -> JSONValue in time.map { .string(RFC3339.format(milliseconds: $0 + ahead)) } ?? .null }
        return [
            .init("up", .bool(!report.isDown)), .init("state", .string(report.state.rawValue)), .init("was_down", .bool(report.wasDown)),
            .init("since", time(report.since)), .init("cause", report.cause.map { .string($0) } ?? .null),
            .init("failures_in_a_row", .integer(report.failuresInARow)), .init("last_response", time(report.respondedAt)),
            .init("last_attempt", time(report.attemptedAt)),
        ]
    }

    /// Totals of all upstreams.
    private static func upstream(_ snapshot: MetricsSnapshot) -> [JSONValue.Member] {
        return [
            .init("active_requests", .integer(snapshot.figures[.upstreamActive])),
            .init("requests", .integer(snapshot.figures[.upstreamRequests])),
            .init("connections_opened", .integer(snapshot.figures[.upstreamConnections])),
            .init("errors", counts(.upstreamErrors, snapshot)),
        ]
    }

    @Sendable static func stats(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.interface.gathering.gather(task.interface, task.server) { figures in
            task.reply(AdminResponse(stats(figures, task.server)))
        }
    }

    private static func stats(_ figures: StatusFigures, _ server: any AdministeredServer) -> JSONValue {
        let (snapshot, store) = (figures.snapshot, figures.store)
        let labelled = snapshot.figures.labelled
        let upstreamDuration = labelled.histogram(.upstreamDuration)
        let process = snapshot.process
        return [
            "version": .string(snapshot.version), "time": .string(RFC3339.format(milliseconds: server.wallMilliseconds)),
            "state": [
                "level": .string(figures.sentence.level.rawValue), "sentence": .string(figures.sentence.text),
                "pages": .array(server.statusURLs.map { .string($0) }),
            ],
            "uptime_seconds": .integer(max(0, Int(server.wallMilliseconds / 1000) - Int(process.startTime))),
            "requests": .object(
                CacheResult.allCases.map { JSONValue.Member("\($0.label)", .integer(Int(clamping: snapshot.requestCount(of: $0)))) }),
            "latency_seconds": .object(
                CacheResult.allCases.compactMap { result in
                    let histogram = labelled.histogram(.requestDuration, result.rawValue)
                    return histogram.total == 0 ? nil : JSONValue.Member("\(result.label)", latency(histogram))
                }),
            "latency_bounds_seconds": .array(upstreamDuration.bounds.map { .number(Double($0) / 1e6) }),
            "upstream_latency_seconds": latency(upstreamDuration),
            "response_bytes": .object(
                ContentSource.allCases.map {
                    JSONValue.Member("\($0.label)", .integer(Int(clamping: labelled[.responseBytes, $0.rawValue])))
                }),
            "stored": .integer(snapshot.figures[.stored]),
            "not_stored": counts(.notStored, snapshot),
            "rescued": counts(.rescued, snapshot),
            "modes": modes(snapshot), "apis": apis(snapshot), "routes": routes(snapshot),
            "store": [
                "entries": .integer(store.entries), "bytes": .integer(store.bytes),
                "limit_bytes": .integer(store.limitBytes), "room_bytes": .integer(store.usableBytes),
                "writable": .bool(store.isWritable), "refusal": store.refusal.map { .string("\($0.words) (\($0.systemText))") } ?? .null,
                "evicted": .integer(store.evicted), "write_errors": .integer(store.writeErrors),
            ],
            "connections": [
                "open": .integer(snapshot.figures[.connectionsOpen]), "limit": .integer(snapshot.figures[.connectionsLimit]),
                "accepted": .integer(snapshot.figures[.connectionsAccepted]),
            ],
            "upstream": .object(
                state(snapshot.failures.upstream, server) + [
                    .init("failing", .object(snapshot.failures.scopes.map { JSONValue.Member($0.scope, .integer($0.open)) })),
                    .init("active_requests", .integer(snapshot.figures[.upstreamActive])),
                    .init("requests", .integer(snapshot.figures[.upstreamRequests])),
                ]),
            "loops": .array(
                snapshot.loops.map { ["shard": .integer($0.shard), "longest_wait_seconds": .number(Double($0.longestWait) * 1e-6)] }),
            "process": ["cpu_seconds": .number(process.cpuSeconds), "resident_bytes": .integer(Int(process.residentBytes))],
        ]
    }

    /// Counts by result.
    private static func counts(_ requests: [UInt64]) -> JSONValue {
        .object(
            CacheResult.allCases.filter { $0 != .own }.map {
                JSONValue.Member("\($0.label)", .integer(Int(clamping: requests[$0.rawValue])))
            })
    }

    private static func apis(_ snapshot: MetricsSnapshot) -> JSONValue {
        .array(
            snapshot.apis.map { api in
                let counted = snapshot.counts(of: api)
                return [
                    "name": .string(api.name), "up": .bool(!api.report.isDown), "state": .string(api.report.state.rawValue),
                    "was_down": .bool(api.report.wasDown), "requests": counts(counted.figures.apiRequests),
                    "server_errors": .integer(Int(clamping: counted.figures[.apiServerErrors])),
                ]
            })
    }

    private static func routes(_ snapshot: MetricsSnapshot) -> JSONValue {
        .array(
            snapshot.routeSummaries.map {
                [
                    "name": .string($0.name), "requests": counts($0.requests), "server_errors": .integer(Int(clamping: $0.serverErrors)),
                    "latency_seconds": latency($0.duration),
                ]
            })
    }

    /// Modes that apply to any path.
    private static func modes(_ snapshot: MetricsSnapshot) -> JSONValue {
        let used = snapshot.modes.filter { $0.isForAll || $0.prefixes + $0.routes > 0 }
        return .object(
            used.map { line in
                JSONValue.Member(
                    line.mode, ["for_all": .bool(line.isForAll), "prefixes": .integer(line.prefixes), "routes": .integer(line.routes)])
            })
    }

    private static func latency(_ histogram: Histogram) -> JSONValue {
        let seconds = { (share: Double) -> JSONValue in histogram.quantile(share).map { .number(Double($0) / 1e6) } ?? .null }
        let counts = (0...histogram.bounds.count).map { JSONValue.integer(Int(clamping: histogram.counts[$0])) }
        return ["p50": seconds(0.5), "p90": seconds(0.9), "p99": seconds(0.99), "counts": .array(counts)]
    }

    /// Counts by label, without zeros.
    private static func counts(_ figure: LabelledFigure, _ snapshot: MetricsSnapshot) -> JSONValue {
        let counted = snapshot.values(figure).enumerated().map { ($1, snapshot.figures.labelled[figure, $0]) }
        return .object(counted.filter { $0.1 > 0 }.map { JSONValue.Member($0.0, .integer(Int(clamping: $0.1))) })
    }
}
