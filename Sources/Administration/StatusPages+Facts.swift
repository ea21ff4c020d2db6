// Facts about Cistern itself on the status page: modes and faults, store, connections, certificates, process.

import CachePolicy
import Explanation
import Figures
import ResponseCache

extension StatusView {
    static func facts(_ figures: StatusFigures, _ apis: [any AdministeredAPI]) -> [Facts] {
        var facts = [
            Facts("Modes and faults", modes(figures, apis)), Facts("Store", store(figures, apis)),
            Facts("Connections", connections(figures)),
        ]
        let fields = unknownFields(figures)
        if !fields.isEmpty { facts.append(Facts("Request fields", fields)) }
        if figures.snapshot.clientTLS.isSpoken { facts.append(Facts("Certificates", certificates(figures.snapshot))) }
        facts.append(Facts("Process", process(figures)))
        return facts.filter { !$0.facts.isEmpty }
    }

    private static func modes(_ figures: StatusFigures, _ apis: [any AdministeredAPI]) -> [Fact] {
        var facts: [Fact] = []
        for api in apis {
            let name = api.name.isEmpty ? "Mode" : "Mode of \(api.name)"
            let modes = api.modes
            let isLive = modes.all == .live
            facts.append(Fact(name, modes.all.rawValue, level: isLive ? nil : .strained))
            for (index, mode) in modes.routes.sorted(by: { $0.key < $1.key }) {
                let route = api.routeNames.indices.contains(index) ? api.routeNames[index] : "other paths"
                facts.append(Fact("\(name), route \(route)", mode.rawValue, level: mode == .live ? nil : .strained))
            }
            if !modes.rules.isEmpty {
                facts.append(Fact("\(name), prefixes", "\(modes.rules.count) with a separate mode", level: .strained))
            }
        }
        let faults = figures.sentence.faults
        return facts + [Fact("Faults", faults == 0 ? "none" : "\(faults) injected", level: faults == 0 ? nil : .strained)]
    }

    private static func store(_ figures: StatusFigures, _ apis: [any AdministeredAPI]) -> [Fact] {
        guard apis.contains(where: { $0.cache != nil }) else { return [Fact("Store", "off: responses are not stored")] }
        let store = figures.store
        // A smaller limit than configured, apart from the part reserved for the index snapshot.
        let isSmaller = store.usableBytes > 0 && store.usableBytes < store.limitBytes - store.limitBytes / 8
        let refusal = store.refusal.map { "refuses new responses: \($0.words) (\($0.systemText))" }
        return [
            Fact("Entries", store.entries == 0 ? "none yet" : NumberText.count(store.entries)),
            Fact(
                "Size", "\(NumberText.bytes(store.bytes)) of \(NumberText.bytes(store.limitBytes))",
                note: isSmaller ? "the disk has space for \(NumberText.bytes(store.usableBytes))" : ""),
            Fact("Evicted", NumberText.count(store.evicted)),
            Fact("Disk", refusal ?? (store.isWritable ? "writable" : "not writable"), level: store.isWritable ? nil : .down),
            Fact("Failed writes", NumberText.count(store.writeErrors), level: store.writeErrors == 0 ? nil : .strained),
        ]
    }

    /// The most frequent request fields that are on no list. Metrics contain all of them.
    private static func unknownFields(_ figures: StatusFigures) -> [Fact] {
        figures.snapshot.unknownFields.sorted { $0.count > $1.count }.prefix(unknownFieldLimit).map { field in
            let requests = NumberText.count(field.count)
            let isKept = field.finding == FieldFinding.Kind.keptCopyBack.rawValue
            return Fact(
                field.field, isKept ? "prevented the use of a stored response \(requests) times" : "another value in each request",
                note: "if responses do not depend on it: cache.harmless_fields: +\(field.field)")
        }
    }

    private static let unknownFieldLimit = 16

    private static func connections(_ figures: StatusFigures) -> [Fact] {
        let figures = figures.snapshot.figures
        return [
            Fact("Client connections", "\(NumberText.count(figures[.connectionsOpen])) of \(NumberText.count(figures[.connectionsLimit]))"),
            Fact("Requests now", NumberText.count(figures[.requestsInFlight])),
            Fact(
                "Closed to free capacity", NumberText.count(figures[.connectionsEvicted]),
                level: figures[.connectionsEvicted] == 0 ? nil : .strained),
            Fact(
                "Rejected", NumberText.count(figures[.connectionsRejected]),
                level: figures[.connectionsRejected] == 0 ? nil : .strained),
            Fact("Upstream requests now", NumberText.count(figures[.upstreamActive])),
            Fact("Waiting for the upstream", NumberText.count(figures[.upstreamWaiting])),
        ]
    }

    /// Remaining time of a certificate that expires soon, as in the alert rules.
    static let soonSeconds: Int64 = 14 * 86_400

    private static func certificates(_ snapshot: MetricsSnapshot) -> [Fact] {
        let certificates = snapshot.clientTLS.certificates
        let failedReloads = snapshot.figures.labelled[.tlsReloads, 1]
        let soonest = certificates.map(\.secondsLeft).min()
        let level: Level? = soonest.map { $0 <= 0 ? .down : $0 < soonSeconds ? .strained : nil } ?? nil
        return [
            Fact("In use", NumberText.count(certificates.count)),
            Fact("First expiry", soonest.map { $0 <= 0 ? "expired" : "in \(NumberText.span($0))" } ?? "–", level: level),
            Fact("Failed reloads", NumberText.count(failedReloads), level: failedReloads == 0 ? nil : .strained),
        ]
    }

    private static func process(_ figures: StatusFigures) -> [Fact] {
        let process = figures.snapshot.process
        let wait = figures.snapshot.loops.map(\.longestWait).max() ?? 0
        let reload = figures.snapshot.reloads.last
        return [
            Fact("Version", figures.snapshot.version),
            Fact("Running for", NumberText.span(max(0, figures.wall / 1_000 - Int64(process.startTime)))),
            Fact("Memory", NumberText.bytes(process.residentBytes)),
            Fact("Processor time", NumberText.duration(microseconds: Int64(process.cpuSeconds * 1e6))),
            Fact("Loops' longest wait", NumberText.duration(microseconds: wait), note: "within a minute"),
            Fact(
                "Last reload", reload.map { StateSentence.words(ofCause: $0.result) } ?? "none",
                level: reload?.result == "refused" ? .strained : nil),
        ]
    }
}
