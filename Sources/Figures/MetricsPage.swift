// The /metrics page: all families with their help texts and sources.

public enum MetricsPage {
    /// Renders the page.
    /// - Parameter store: writes the families of the store, which other modules provide.
    public static func render(_ snapshot: MetricsSnapshot, format: MetricsFormat, store: (inout MetricsWriter) -> Void) -> [UInt8] {
        var writer = MetricsWriter(format: format, inherited: snapshot.inherited?.counts ?? InheritedCounts.Counts())
        requests(snapshot, &writer)
        snapshot.writeRoutes(to: &writer)
        upstream(snapshot, &writer)
        store(&writer)
        tokens(snapshot.tokens, &writer)
        writer.write(snapshot.figures)
        if snapshot.clientTLS.isSpoken { clientTLS(snapshot.clientTLS, &writer) }
        modes(snapshot.modes, &writer)
        reloads(snapshot.reloads, &writer)
        faults(snapshot, &writer)
        if let tracing = snapshot.tracing { self.tracing(tracing, &writer) }
        if let sharing = snapshot.sharing { sharing.write(to: &writer) }
        loops(snapshot.loops, &writer)
        process(snapshot, &writer)
        return writer.finish()
    }

    private static func requests(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        let shards = snapshot.shards
        writer.counter(
            "cistern_requests", "Requests, by how they were responded to.", shards.countedRequests.map { ($0.labels, Double($0.count)) })
        writer.counter(
            "cistern_response_bytes", "Bytes of content sent to clients, by where it came from.",
            ContentSource.allCases.map { ("source=\"\($0.label)\"", Double(shards.responseBytes[$0.rawValue])) })
        writer.counter(
            "cistern_saved_bytes", "Bytes of content sent to clients for which the upstream did not have to send any, by result.",
            Self.fromStore.map { ("result=\"\($0.label)\"", Double(shards.savedBytes[$0.rawValue])) })
        writer.counter(
            "cistern_request_contents", "Requests with content, by what became of it: taken whole, passed on as it came, or unfinished.",
            labelled("outcome", shards.labels.contentOutcomes, shards.contents))
        writer.histogram(
            "cistern_request_duration_seconds", "From a request's head to the end of its response.", scale: 1e-6,
            CacheResult.allCases.map { ("result=\"\($0.label)\"", shards.durations[$0.rawValue], shards.exemplars[$0.rawValue]) })
        writer.counter(
            "cistern_rescued_requests", "Requests for which a stored response went out because the upstream failed, by cause.",
            labelled("cause", shards.labels.rescueCauses, shards.rescued))
        writer.counter(
            "cistern_rescued_with_shared",
            "Of these, requests with credentials that got the copy of those without any, by what allowed it.",
            labelled("leave", shards.labels.sharedPermissions, shards.rescuedWithShared))
        writer.histogram("cistern_served_age_seconds", "Age of the responses served from the store.", scale: 1, [("", shards.servedAge)])
        writer.gauge(
            "cistern_served_age_oldest_seconds",
            "Age of the oldest response served from the store in the last five minutes, by result; 0 where none was.",
            Self.fromStore.map { ("result=\"\($0.label)\"", Double(snapshot.oldestAges[$0.rawValue] ?? 0)) })
        writer.counter(
            "cistern_not_stored", "Responses not kept, by reason.", labelled("reason", shards.labels.notStored, shards.notStored))
        writer.counter(
            "cistern_refused_requests", "Requests refused before anything was done with them, by reason.",
            labelled("reason", shards.labels.refusals, shards.refused))
    }

    /// The results of responses from the store.
    private static let fromStore: [CacheResult] = [.hit, .revalidated, .stale, .collapsed, .rescued]

    private static func upstream(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        let shards = snapshot.shards
        writer.gauge("cistern_ready", "Whether balancers should send requests here (/readyz).", snapshot.isReady ? 1 : 0)
        failures(snapshot.failures, unixOffset: snapshot.unixOffset, &writer)
        snapshot.writeAPIs(to: &writer)
        snapshot.writeUpstreams(to: &writer)
        writer.histogram(
            "cistern_upstream_duration_seconds", "From asking the upstream to the end of its response or its failure.", scale: 1e-6,
            [("", shards.upstreamDuration)])
        writer.counter(
            "cistern_upstream_errors", "Failed exchanges with the upstream, by error type (RFC 9209).",
            labelled("error", shards.labels.upstreamErrors, shards.upstreamErrors))
        writer.counter(
            "cistern_upstream_http2_streams_ended", "Exchanges with the upstream over HTTP/2 that are over, by how they ended.",
            snapshot.upstreamHTTP2Ended.sorted { $0.key < $1.key }.map { ("end=\"\($0.key)\"", Double($0.value)) })
        writer.counter(
            "cistern_upstream_connections_ended", "Connections to the upstream that ended, by cause.",
            snapshot.upstreamEnded.sorted { $0.key < $1.key }.map { ("cause=\"\($0.key)\"", Double($0.value)) })
        writer.counter(
            "cistern_gone", "404 and 410 for what there is a copy of: remembered, served, lifted, and not believed.",
            snapshot.gone.map { ("event=\"\($0.event)\"", Double($0.count)) })
        writer.counter(
            "cistern_unknown_fields", "Requests whose fields kept a copy from being used, and clients for which a field changes.",
            snapshot.unknownFields.map { ("field=\"\($0.field)\",finding=\"\($0.finding)\"", Double($0.count)) })
        if !snapshot.recorded.isEmpty {
            writer.counter(
                "cistern_recorded_exchanges", "Exchanges that are in the recording, or left out of it, and why.",
                snapshot.recorded.map { ("result=\"\($0.result)\"", Double($0.count)) })
        }
    }

    private static func failures(_ failures: MetricsSnapshot.Failures, unixOffset: Int64, _ writer: inout MetricsWriter) {
        let upstream = failures.upstream
        writer.gauge("cistern_upstream_up", "0 while the upstream is down, or unknown and down last; else 1.", upstream.isDown ? 0 : 1)
        writer.gauge(
            "cistern_upstream_state", "The state of the upstream: 1 for the present one, 0 for the others.", upstream.stateLabels)
        writer.gauge(
            "cistern_upstream_state_since_seconds",
            "First failure of the present period in which the upstream is failing or down (Unix time); 0 if there is none.",
            upstream.sinceSeconds(unixOffset))
        let states = { (isOpen: Bool) in [("closed", isOpen ? 0.0 : 1), ("open", isOpen ? 1.0 : 0)] }
        writer.gauge(
            "cistern_route_state", "Whether every request on a route fails (open), or not (closed).",
            failures.routes.flatMap { line in states(line.isOpen).map { ("route=\"\(line.route)\",state=\"\($0)\"", $1) } })
        writer.gauge(
            "cistern_failure_scopes", "What is known to fail now, by kind of scope.",
            failures.scopes.map { ("scope=\"\($0.scope)\"", Double($0.open)) })
        writer.counter(
            "cistern_failure_scopes_opened", "How often something became known to fail, by kind of scope.",
            failures.scopes.map { ("scope=\"\($0.scope)\"", Double($0.opened)) })
    }

    private static func clientTLS(_ tls: MetricsSnapshot.ClientTLS, _ writer: inout MetricsWriter) {
        writer.gauge("cistern_tls_handshakes_running", "TLS handshakes with clients that are under way.", Double(tls.running))
        writer.counter(
            "cistern_tls_handshakes", "TLS agreed with clients: in full, or by resuming a session.",
            [("kind=\"full\"", Double(tls.full)), ("kind=\"resumed\"", Double(tls.resumed))])
        writer.counter(
            "cistern_tls_handshakes_failed", "TLS handshakes with clients that failed, by reason.",
            tls.failed.sorted { $0.key < $1.key }.map { ("reason=\"\($0.key)\"", Double($0.value)) })
        writer.gauge(
            "cistern_tls_certificate_left_seconds", "Time until a certificate for clients expires; below 0 where it has.",
            tls.certificates.map { ("name=\"\($0.name)\"", Double($0.secondsLeft)) })
        writer.counter(
            "cistern_tls_reloads", "How often certificates were read again: taken, or refused as a whole.",
            [("result=\"taken\"", Double(tls.reloads)), ("result=\"refused\"", Double(tls.failedReloads))])
    }

    private static func reloads(_ reloads: MetricsSnapshot.Reloads, _ writer: inout MetricsWriter) {
        writer.counter(
            "cistern_settings_reloads",
            "How often the settings were read again: applied as a whole, applied but for what needs a restart, or refused as a whole.",
            reloads.counts.map { ("result=\"\($0.result)\"", Double($0.count)) })
        guard let last = reloads.last else { return }
        writer.gauge(
            "cistern_settings_last_reload", "What came of it the last time.",
            reloads.counts.map { ("result=\"\($0.result)\"", $0.result == last.result ? 1 : 0) })
        writer.gauge("cistern_settings_last_reload_timestamp_seconds", "When that was (Unix time).", Double(last.seconds))
    }

    private static func tokens(_ tokens: MetricsSnapshot.Tokens, _ writer: inout MetricsWriter) {
        writer.counter(
            "cistern_tokens",
            "Tokens of requests that were looked at, by what that came to. Those that are remembered are not looked at again.",
            tokens.looked.sorted { $0.key < $1.key }.map { ("result=\"\($0.key)\"", Double($0.value)) })
        writer.counter(
            "cistern_identity_lookups", "How often the upstream was asked whom credentials belong to, by what that came to.",
            tokens.lookUps.sorted { $0.key < $1.key }.map { ("result=\"\($0.key)\"", Double($0.value)) })
    }

    private static func modes(_ modes: [MetricsSnapshot.ModeLine], _ writer: inout MetricsWriter) {
        writer.gauge(
            "cistern_mode", "Which mode is that of all paths.", modes.map { ("mode=\"\($0.mode)\"", $0.isForAll ? 1 : 0) })
        writer.gauge(
            "cistern_mode_prefixes", "Path prefixes that have a mode of their own.",
            modes.map { ("mode=\"\($0.mode)\"", Double($0.prefixes)) })
        writer.gauge(
            "cistern_mode_routes", "Routes that have a mode of their own.", modes.map { ("mode=\"\($0.mode)\"", Double($0.routes)) })
    }

    private static func faults(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        writer.counter(
            "cistern_injected_faults", "Faults that were injected into requests to the upstream, by kind.",
            snapshot.faults.map { ("kind=\"\($0.kind)\"", Double($0.count)) })
    }

    private static func tracing(_ tracing: MetricsSnapshot.Tracing, _ writer: inout MetricsWriter) {
        writer.counter("cistern_trace_spans_exported", "Spans that the collector has taken.", tracing.exported)
        writer.counter(
            "cistern_trace_spans_dropped", "Spans that it has not, by reason.",
            tracing.dropped.map { ("reason=\"\($0.reason)\"", Double($0.count)) })
        writer.counter("cistern_trace_export_failures", "Times that the collector could not be asked, or was not well.", tracing.failures)
        writer.counter(
            "cistern_trace_requests_over_limit", "Requests that were to be recorded, and were not for tracing.limit.", tracing.overLimit)
    }

    private static func labelled(_ name: String, _ labels: [String], _ counts: [UInt64]) -> [(labels: String, value: Double)] {
        zip(labels, counts).map { ("\(name)=\"\($0)\"", Double($1)) }
    }
}
