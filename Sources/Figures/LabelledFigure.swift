// Declares the counters of `/metrics` with a label, and the histograms. A figure is declared with its scope: one value for the process, one
// for each API, or one for each route. The values of a label are the cases of an enum; a figure is counted by the index of a case. Sums and
// the metrics page iterate over the declarations. `MetricNames.values(of:)` names the values, and the compiler demands them for a new
// figure.

public enum LabelledFigure: Int, CaseIterable, Sendable {
    case requests
    case responseBytes
    case savedBytes
    case contents
    case rescued
    case rescuedWithShared
    case notStored
    case errorsNotStored
    case refused
    case upstreamErrors
    case upstreamHTTP2Ended
    case upstreamEnded
    case injectedFaults
    case apiRequests
    case apiServerErrors
    case upstreamResponses
    case upstreamResponseBytes
    case routeRequests
    case routeRescued
    case routeNotStored
    case tlsHandshakes
    case tlsHandshakesFailed
    case tlsReloads
    case spansExported
    case spansDropped
    case spanExportFailures
    case tracedOverLimit

    /// The samples on the page.
    public enum Shown: Sendable {
        /// Also those that were never counted, so that rates have a first value.
        case all
        /// Only counted ones, because there are many.
        case counted
        /// Counted ones, and successful GET requests.
        case countedOrUsual
        /// None: the figure is for summaries only.
        case none
    }

    public struct Declaration: Sendable {
        public let scope: FigureScope
        /// Without `_total`.
        public let name: String
        public let help: String
        /// Name of the label; empty if the values contain their names, or there is no label.
        public let label: String
        public let shown: Shown

        init(_ scope: FigureScope, _ name: String, _ help: String, label: String = "", shown: Shown = .all) {
            (self.scope, self.name, self.help, self.label, self.shown) = (scope, name, help, label, shown)
        }
    }

    public var declaration: Declaration {
        switch self {
        case .requests: .init(.process, "cistern_requests", "Requests, by result, method and status class.", shown: .countedOrUsual)
        case .responseBytes:
            .init(.process, "cistern_response_bytes", "Bytes of content sent to clients, by source.", label: "source")
        case .savedBytes:
            .init(
                .process, "cistern_saved_bytes",
                "Bytes of content sent to clients without content from the upstream, by result.", label: "result")
        case .contents:
            .init(
                .process, "cistern_request_contents",
                "Requests with content, by how it was handled: buffered, streamed, or incomplete.", label: "outcome")
        case .rescued:
            .init(
                .process, "cistern_rescued_requests",
                "Requests served with a stored response because the upstream failed, by cause.", label: "cause")
        case .rescuedWithShared:
            .init(
                .process, "cistern_rescued_with_shared",
                "Rescued requests with credentials that got a response stored without them, by permission.", label: "leave")
        case .notStored: .init(.process, "cistern_not_stored", "Responses not stored, by reason.", label: "reason")
        case .errorsNotStored: .init(.process, "", "Those with a status of 5xx, of all, of an API or of a route.", shown: .none)
        case .refused:
            .init(
                .process, "cistern_refused_requests", "Requests rejected by Cistern before any processing, by reason.", label: "reason")
        case .upstreamErrors:
            .init(
                .process, "cistern_upstream_errors", "Failed exchanges with the upstream, by error type (RFC 9209).", label: "error")
        case .upstreamHTTP2Ended:
            .init(
                .process, "cistern_upstream_http2_streams_ended",
                "Completed HTTP/2 exchanges with the upstream, by how they ended.", label: "end")
        case .upstreamEnded:
            .init(.process, "cistern_upstream_connections_ended", "Closed connections to the upstream, by cause.", label: "cause")
        case .injectedFaults:
            .init(
                .process, "cistern_injected_faults", "Faults injected into requests to the upstream, by kind.", label: "kind")
        case .apiRequests: .init(.api, "cistern_api_requests", "Requests for each API, by result.", label: "result")
        case .apiServerErrors:
            .init(
                .api, "cistern_api_server_errors",
                "Requests for each API that were answered with a status of 5xx, by the upstream or by Cistern.")
        case .upstreamResponses:
            .init(
                .upstream, "cistern_upstream_responses",
                "Responses of the upstream, by status class, including injected ones.", label: "status_class")
        case .upstreamResponseBytes:
            .init(
                .upstream, "cistern_upstream_response_bytes", "Bytes of content received from the upstream, before decoding.")
        case .routeRequests:
            .init(.route, "cistern_route_requests", "Requests for each route, by result and status class.", shown: .counted)
        case .routeRescued:
            .init(
                .route, "cistern_route_rescued_requests", "Requests for each route that were rescued with a stored response, by cause.",
                label: "cause", shown: .counted)
        case .routeNotStored:
            .init(
                .route, "cistern_route_not_stored", "Responses of each route that were not stored, by reason.", label: "reason",
                shown: .counted)
        case .tlsHandshakes:
            .init(.clientTLS, "cistern_tls_handshakes", "TLS handshakes with clients: full, or resumed from a session.", label: "kind")
        case .tlsHandshakesFailed:
            .init(.clientTLS, "cistern_tls_handshakes_failed", "TLS handshakes with clients that failed, by reason.", label: "reason")
        case .tlsReloads:
            .init(
                .clientTLS, "cistern_tls_reloads", "Reloads of certificates, by result. A reload uses all certificates or none.",
                label: "result")
        case .spansExported: .init(.tracing, "cistern_trace_spans_exported", "Trace spans that the collector accepted.")
        case .spansDropped:
            .init(.tracing, "cistern_trace_spans_dropped", "Trace spans that were not delivered, by reason.", label: "reason")
        case .spanExportFailures:
            .init(
                .tracing, "cistern_trace_export_failures",
                "Failed exports of trace spans, because the collector was unreachable or returned an error.")
        case .tracedOverLimit:
            .init(
                .tracing, "cistern_trace_requests_over_limit",
                "Requests not traced because of tracing.limit.")
        }
    }
}

/// What a figure has one value for.
public enum FigureScope: Sendable {
    /// The process.
    case process
    /// Each API, if there are several.
    case api
    /// The upstream of each API.
    case upstream
    /// Each route, if there are any.
    case route
    /// The process, if it uses TLS with clients.
    case clientTLS
    /// The process, if it records spans.
    case tracing
}

/// A histogram, of which there may be one for each `CacheResult`.
public enum HistogramFigure: Int, CaseIterable, Sendable {
    case requestDuration
    case servedAge
    case upstreamDuration
    case connecting
    case securing
    case firstByte
    case routeDuration

    public struct Declaration: Sendable {
        public let scope: FigureScope
        public let name: String
        public let help: String
        public let isByResult: Bool

        init(_ scope: FigureScope, _ name: String, _ help: String, isByResult: Bool = false) {
            (self.scope, self.name, self.help, self.isByResult) = (scope, name, help, isByResult)
        }
    }

    public var declaration: Declaration {
        switch self {
        case .requestDuration:
            .init(
                .process, "cistern_request_duration_seconds", "Time from a request's head to the end of its response.", isByResult: true)
        case .servedAge: .init(.process, "cistern_served_age_seconds", "Age of the responses served from the store.")
        case .upstreamDuration:
            .init(
                .process, "cistern_upstream_duration_seconds",
                "Time from sending a request to the upstream to the end or failure of its response.")
        case .connecting:
            .init(
                .upstream, "cistern_upstream_connect_seconds",
                "Time to connect to the upstream, including name resolution.")
        case .securing: .init(.upstream, "cistern_upstream_tls_seconds", "Duration of TLS handshakes with the upstream.")
        case .firstByte:
            .init(
                .upstream, "cistern_upstream_first_byte_seconds",
                "Time from sending a request to the upstream to the first byte of its response.")
        case .routeDuration:
            .init(
                .route, "cistern_route_request_duration_seconds",
                "Time from a request's head to the end of its response, for each route.")
        }
    }

    /// Bounds of durations in microseconds, of ages in seconds.
    var bounds: [Int64] { self == .servedAge ? Histogram.ages : Histogram.durations }
    /// Factor from the histogram's unit to seconds.
    var scale: Double { self == .servedAge ? 1 : 1e-6 }
}
