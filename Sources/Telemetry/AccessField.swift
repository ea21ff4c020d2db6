// What a line of the access log may tell, by the names that the operator chooses from.

public enum AccessField: String, Sendable, CaseIterable {
    case time, client
    case clientSubject = "client_subject"
    case requestID = "request_id"
    case traceID = "trace_id"
    case api, route, method, path
    /// With the values of secret arguments left out.
    case query
    case httpVersion = "protocol"
    case tls
    case userAgent = "user_agent"
    /// Without its query.
    case referer
    case status, bytes
    case duration = "duration_us"
    /// How long the request's content took.
    case content = "content_us"
    case result, reason, age
    /// What other nodes had.
    case shared
    case upstream = "upstream_us"
    case upstreamStatus = "upstream_status"
    case upstreamAddress = "upstream_address"
    case upstreamVersion = "upstream_protocol"
    /// Several members, one for each phase that was reached.
    case upstreamPhases = "upstream_phases"

    /// Unless the operator says otherwise: all but the phases, and what may tell more of people than is needed.
    public static let usual = allCases.filter { ![.query, .userAgent, .referer, .upstreamPhases].contains($0) }
}
