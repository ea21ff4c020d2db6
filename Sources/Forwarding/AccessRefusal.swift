// Requests that are refused for where they come from, whom they ask for, or how many of them there are.

import HTTPCore

public enum AccessRefusal: String, Error, CaseIterable {
    /// By an `allow` or `deny` list.
    case address = "client_address"
    /// `forwarding.names` does not have the host, or a whole URI names another place than this.
    case misdirected = "name_not_served"
    /// Of several APIs, none of those that have the host has the path.
    case noAPI = "path_not_served"
    /// A reading of its path leaves the path of the upstream's URL.
    case outside = "path_outside"
    /// Where clients take this for their forward proxy: a whole URI names no API.
    case notProxied = "not_proxied"
    /// A whole URI names another scheme than the one that its connection speaks (RFC 9110 §7.4).
    case otherScheme = "other_scheme"
    /// The host's clients are asked for another certificate than this connection's were.
    case otherCertificate = "other_client_certificate"
    /// Its route wants a client certificate, and the connection has presented none that is good.
    case noCertificate = "no_client_certificate"
    /// `limits.requests_per_address`.
    case requestsPerAddress = "requests_per_address"
    /// The request would sign in an upstream connection (NTLM, Negotiate, Kerberos), and its client speaks HTTP/2.
    case userOverHTTP2 = "connection_user_http2"
    /// The same, and the upstream is asked in HTTP/2 only.
    case userAtHTTP2Upstream = "connection_user_http2_upstream"
    /// The same, and the client, or all clients together, have as many such connections as they may.
    case userConnections = "connection_users"

    public var status: Status {
        switch self {
        case .outside: 400
        case .address, .noCertificate, .notProxied: 403
        case .misdirected, .otherScheme, .otherCertificate: 421
        case .noAPI: 404
        case .requestsPerAddress: 429
        case .userOverHTTP2, .userAtHTTP2Upstream: 502
        case .userConnections: 503
        }
    }

    /// Whether what it asks for is not here.
    public var isOfPlace: Bool { self == .misdirected || self == .noAPI || self == .notProxied }

    public var sentence: String {
        switch self {
        case .address: "Clients at this address may not ask for this here."
        case .misdirected: "This host is not served here."
        case .noAPI: "No API is served under this path."
        case .outside: "The dot segments of this path lead above its beginning."
        case .notProxied: "This forward proxy is for its own APIs only, and this URI is none of theirs."
        case .otherScheme: "This connection cannot ask for that scheme: http is for clear connections, and https for those through TLS."
        case .otherCertificate: "This host needs a connection of its own, since its clients show another certificate."
        case .noCertificate: "This needs a connection with a client certificate."
        case .requestsPerAddress: "Too many requests of this address are under way."
        case .userOverHTTP2:
            "NTLM, Negotiate and Kerberos authenticate a connection, and HTTP/2 carries several requests on each: use HTTP/1.1."
        case .userAtHTTP2Upstream:
            "NTLM, Negotiate and Kerberos authenticate a connection, and the upstream is asked over shared HTTP/2 connections only."
        case .userConnections:
            "Too many upstream connections are authenticated by NTLM, Negotiate or Kerberos for this client, or for all clients together."
        }
    }

    /// Seconds.
    private var retryAfter: Int? {
        switch self {
        case .requestsPerAddress: 1
        // An idle one ends after a minute.
        case .userConnections: 60
        case .address, .misdirected, .noAPI, .outside, .notProxied, .otherScheme, .otherCertificate, .noCertificate, .userOverHTTP2,
            .userAtHTTP2Upstream:
            nil
        }
    }

    func response(accept: [UInt8]?) -> OwnResponse {
        var response = OwnResponse(status: status, sentence: sentence, accept: accept)
        // What is under way ends soon.
        if let retryAfter { response.fieldLines = Array("Retry-After: \(retryAfter)\r\n".utf8) }
        return response
    }
}
