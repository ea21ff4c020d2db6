// The /metrics page: all families with their help texts and sources.

public enum MetricsPage {
    /// Renders the page.
    /// - Parameter store: writes the families of the store, which other modules provide.
    public static func render(_ snapshot: MetricsSnapshot, format: MetricsFormat, store: (inout MetricsWriter) -> Void) -> [UInt8] {
        var writer = MetricsWriter(format: format, inherited: snapshot.inherited?.counts ?? InheritedCounts.Counts())
        requests(snapshot, &writer)
        if !snapshot.routes.isEmpty {
            snapshot.write(.route, snapshot.routes.map { ("route=\"\($0.name)\"", $0.figures) }, to: &writer)
        }
        upstream(snapshot, &writer)
        store(&writer)
        tokens(snapshot.tokens, &writer)
        writer.write(snapshot.figures)
        if snapshot.clientTLS.isSpoken { clientTLS(snapshot, &writer) }
        modes(snapshot.modes, &writer)
        reloads(snapshot.reloads, &writer)
        if snapshot.hasTraced { snapshot.write(.tracing, [("", snapshot.figures.labelled)], to: &writer) }
        notifications(snapshot.notifications, &writer)
        if let sharing = snapshot.sharing { sharing.write(to: &writer) }
        loops(snapshot.loops, &writer)
        process(snapshot, &writer)
        return writer.finish()
    }

    private static func requests(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        snapshot.write(.process, [("", snapshot.figures.labelled)], to: &writer)
        writer.gauge(
            "cistern_served_age_oldest_seconds",
            "Age of the oldest stored response served within the last five minutes, by result; 0 if there was none.",
            CacheResult.fromStore.map { ("result=\"\($0.label)\"", Double(snapshot.oldestAges[$0.rawValue] ?? 0)) })
    }

    private static func upstream(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        writer.gauge("cistern_ready", "Whether load balancers should send requests to this process (/readyz).", snapshot.isReady ? 1 : 0)
        failures(snapshot.failures, unixOffset: snapshot.unixOffset, &writer)
        snapshot.writeAPIs(to: &writer)
        snapshot.writeUpstreams(to: &writer)
        writer.counter(
            "cistern_gone",
            "Responses 403, 404 and 410 for targets with a stored response, by event: remembered, served, lifted, or disbelieved.",
            snapshot.gone.map { ("event=\"\($0.event)\"", Double($0.count)) })
        writer.counter(
            "cistern_unknown_fields",
            "Requests that could not use a stored response because of a field of unknown effect, by field and finding.",
            snapshot.unknownFields.map { ("field=\"\($0.field)\",finding=\"\($0.finding)\"", Double($0.count)) })
        if !snapshot.recorded.isEmpty {
            writer.counter(
                "cistern_recorded_exchanges", "Exchanges that were recorded, or omitted from the recording, by reason.",
                snapshot.recorded.map { ("result=\"\($0.result)\"", Double($0.count)) })
        }
    }

    private static func failures(_ failures: MetricsSnapshot.Failures, unixOffset: Int64, _ writer: inout MetricsWriter) {
        let upstream = failures.upstream
        writer.gauge(
            "cistern_upstream_up", "State of the upstream: 0 if it is down, or unknown after being down; otherwise 1.",
            upstream.isDown ? 0 : 1)
        writer.gauge(
            "cistern_upstream_state", "State of the upstream: 1 for the current state, 0 for the others.", upstream.stateLabels)
        writer.gauge(
            "cistern_upstream_state_since_seconds",
            "Time since which the upstream is failing or down (Unix time); 0 if it is neither.",
            upstream.sinceSeconds(unixOffset))
        let states = { (isOpen: Bool) in [("closed", isOpen ? 0.0 : 1), ("open", isOpen ? 1.0 : 0)] }
        writer.gauge(
            "cistern_route_state", "State of each route in the failure memory: open if every request fails, otherwise closed.",
            failures.routes.flatMap { line in states(line.isOpen).map { ("route=\"\(line.route)\",state=\"\($0)\"", $1) } })
        writer.gauge(
            "cistern_failure_scopes", "Open scopes of the failure memory, by kind.",
            failures.scopes.map { ("scope=\"\($0.scope)\"", Double($0.open)) })
        writer.counter(
            "cistern_failure_scopes_opened", "Times that a scope of the failure memory opened, by kind.",
            failures.scopes.map { ("scope=\"\($0.scope)\"", Double($0.opened)) })
    }

    private static func clientTLS(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        let tls = snapshot.clientTLS
        snapshot.write(.clientTLS, [("", snapshot.figures.labelled)], to: &writer)
        writer.gauge("cistern_tls_handshakes_running", "TLS handshakes with clients in progress.", Double(tls.running))
        writer.gauge(
            "cistern_tls_certificate_left_seconds", "Time until a server certificate expires; negative if it has expired.",
            tls.certificates.map { ("name=\"\($0.name)\"", Double($0.secondsLeft)) })
    }

    private static func reloads(_ reloads: MetricsSnapshot.Reloads, _ writer: inout MetricsWriter) {
        writer.counter(
            "cistern_settings_reloads",
            "Reloads of the settings, by result: applied, applied except for settings that need a restart, or rejected.",
            reloads.counts.map { ("result=\"\($0.result)\"", Double($0.count)) })
        guard let last = reloads.last else { return }
        writer.gauge(
            "cistern_settings_last_reload", "Result of the last reload of the settings.",
            reloads.counts.map { ("result=\"\($0.result)\"", $0.result == last.result ? 1 : 0) })
        writer.gauge(
            "cistern_settings_last_reload_timestamp_seconds", "Time of the last reload of the settings (Unix time).", Double(last.seconds))
    }

    private static func tokens(_ tokens: MetricsSnapshot.Tokens, _ writer: inout MetricsWriter) {
        writer.counter(
            "cistern_tokens",
            "Verifications of tokens, by result. A token with a cached result is not verified again.",
            tokens.lookUpResults.sorted { $0.key < $1.key }.map { ("result=\"\($0.key)\"", Double($0.value)) })
        writer.counter(
            "cistern_identity_lookups", "Identity look-ups at the upstream, by result.",
            tokens.lookUps.sorted { $0.key < $1.key }.map { ("result=\"\($0.key)\"", Double($0.value)) })
    }

    private static func modes(_ modes: [MetricsSnapshot.ModeLine], _ writer: inout MetricsWriter) {
        writer.gauge(
            "cistern_mode", "Mode of all paths: 1 for the current mode, 0 for the others.",
            modes.map { ("mode=\"\($0.mode)\"", $0.isForAll ? 1 : 0) })
        writer.gauge(
            "cistern_mode_prefixes", "Path prefixes with a separate mode.",
            modes.map { ("mode=\"\($0.mode)\"", Double($0.prefixes)) })
        writer.gauge(
            "cistern_mode_routes", "Routes with a separate mode.", modes.map { ("mode=\"\($0.mode)\"", Double($0.routes)) })
    }
}

extension MetricsSnapshot {
    /// Writes the labelled figures and histograms of a scope.
    /// - Parameter parts: values, with the labels of what they belong to.
    func write(_ scope: FigureScope, _ parts: [(labels: String, figures: LabelledFigures)], to writer: inout MetricsWriter) {
        let joined = { (labels: String, more: String) in labels.isEmpty || more.isEmpty ? labels + more : "\(labels),\(more)" }
        for figure in LabelledFigure.allCases {
            let declaration = figure.declaration
            guard declaration.scope == scope, declaration.shown != .none else { continue }
            let labels = values(figure).map { declaration.labels($0) }
            writer.counter(
                declaration.name, declaration.help,
                parts.flatMap { part in
                    labels.enumerated().compactMap { index, label -> (labels: String, value: Double)? in
                        let count = part.figures[figure, index]
                        guard let label, declaration.shows(count, label) else { return nil }
                        return (joined(part.labels, label), Double(count))
                    }
                })
        }
        for figure in HistogramFigure.allCases where figure.declaration.scope == scope {
            let results = figure.declaration.isByResult ? CacheResult.allCases.map { "result=\"\($0.label)\"" } : [""]
            writer.histogram(
                figure.declaration.name, figure.declaration.help, scale: figure.scale,
                parts.flatMap { part in
                    results.enumerated().map { index, result -> (labels: String, histogram: Histogram, exemplars: Exemplars) in
                        (joined(part.labels, result), part.figures.histogram(figure, index), part.figures.exemplars(figure, index))
                    }
                })
        }
    }
}

extension LabelledFigure.Declaration {
    /// The label with its value as on the page; nil for a value without a sample.
    fileprivate func labels(_ value: String) -> String? {
        label.isEmpty ? value : value.isEmpty ? nil : "\(label)=\"\(value)\""
    }

    fileprivate func shows(_ count: UInt64, _ labels: String) -> Bool {
        switch shown {
        case .all: true
        case .counted: count > 0
        case .countedOrUsual: count > 0 || labels.hasSuffix(RequestLabels.usual)
        case .none: false
        }
    }
}
