// The fields of the access log, by their names in the settings.

public enum AccessField: String, Sendable, CaseIterable {
    case time, client
    case clientSubject = "client_subject"
    case requestID = "request_id"
    case traceID = "trace_id"
    case api, route, method, path
    /// Without the values of secret arguments.
    case query
    case httpVersion = "protocol"
    case tls
    case userAgent = "user_agent"
    /// Without its query.
    case referer
    case status, bytes
    case duration = "duration_us"
    /// Time until the request's content was complete, in microseconds.
    case content = "content_us"
    case result, reason, age
    /// Result of the look-up in the fleet.
    case shared
    case upstream = "upstream_us"
    case upstreamStatus = "upstream_status"
    case upstreamAddress = "upstream_address"
    case upstreamVersion = "upstream_protocol"
    /// Several members, one for each completed phase.
    case upstreamPhases = "upstream_phases"

    /// The default fields: all except the phases, the result in the fleet, and those that may contain personal data.
    public static let usual = allCases.filter { ![.query, .userAgent, .referer, .shared, .upstreamPhases].contains($0) }
}
