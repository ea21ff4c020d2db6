// Requests that are rejected because of their origin, their target, or the number of requests.

import HTTPCore

public enum AccessRefusal: String, Error, CaseIterable {
    /// Rejected by an `allow` or `deny` list.
    case address = "client_address"
    /// The host is not in `forwarding.names`, or an absolute URI names another server.
    case misdirected = "name_not_served"
    /// None of the APIs for this host has the path.
    case noAPI = "path_not_served"
    /// A reading of the path is outside the path of the upstream's URL.
    case outside = "path_outside"
    /// The client uses Cistern as a forward proxy, and its absolute URI belongs to no API.
    case notProxied = "not_proxied"
    /// An absolute URI has another scheme than the connection (RFC 9110 §7.4).
    case otherScheme = "other_scheme"
    /// The host requires another client certificate than this connection.
    case otherCertificate = "other_client_certificate"
    /// The route requires a client certificate, and the connection has no valid one.
    case noCertificate = "no_client_certificate"
    /// The limit `limits.requests_per_address` is reached.
    case requestsPerAddress = "requests_per_address"
    /// The request would authenticate an upstream connection (NTLM, Negotiate, Kerberos), but the client uses HTTP/2.
    case userOverHTTP2 = "connection_user_http2"
    /// The request would authenticate an upstream connection, but the client connection is a proxy's, or its client is unknown.
    case userBehindProxy = "connection_user_proxy"
    /// The request would authenticate an upstream connection, but only HTTP/2 is used to the upstream.
    case userAtHTTP2Upstream = "connection_user_http2_upstream"
    /// The request would authenticate an upstream connection, but the client, or all clients together, have reached the limit of such
    /// connections.
    case userConnections = "connection_users"

    public var status: Status {
        switch self {
        case .outside: 400
        case .address, .noCertificate, .notProxied: 403
        case .misdirected, .otherScheme, .otherCertificate: 421
        case .noAPI: 404
        case .requestsPerAddress: 429
        case .userOverHTTP2, .userBehindProxy, .userAtHTTP2Upstream: 502
        case .userConnections: 503
        }
    }

    /// Whether the requested resource does not exist here.
    public var isAboutTarget: Bool { self == .misdirected || self == .noAPI || self == .notProxied }

    public var sentence: String {
        switch self {
        case .address: "Clients at this address may not access this resource."
        case .misdirected: "This host is not served here."
        case .noAPI: "No API is served under this path."
        case .outside: "The dot segments of this path lead above its beginning."
        case .notProxied: "This forward proxy serves its configured APIs only, and this URI belongs to none of them."
        case .otherScheme: "The URI's scheme does not match this connection: use http without TLS, and https over TLS."
        case .otherCertificate: "This host needs a separate connection, because its clients use another certificate."
        case .noCertificate: "This resource requires a client certificate."
        case .requestsPerAddress: "Too many requests from this address are active."
        case .userOverHTTP2:
            "NTLM, Negotiate and Kerberos authenticate a connection, and HTTP/2 carries several requests on each: use HTTP/1.1."
        case .userBehindProxy:
            "NTLM, Negotiate and Kerberos authenticate a connection, and a proxy may send requests of several clients on each."
        case .userAtHTTP2Upstream:
            "NTLM, Negotiate and Kerberos authenticate a connection, and the upstream is reached over shared HTTP/2 connections only."
        case .userConnections:
            "Too many upstream connections are authenticated by NTLM, Negotiate or Kerberos for this client, or for all clients together."
        }
    }

    /// Value of Retry-After in seconds; nil for none.
    private var retryAfter: Int? {
        switch self {
        case .requestsPerAddress: 1
        // Idle connections are closed after a minute, so a retry may succeed then.
        case .userConnections: 60
        case .address, .misdirected, .noAPI, .outside, .notProxied, .otherScheme, .otherCertificate, .noCertificate, .userOverHTTP2,
            .userBehindProxy, .userAtHTTP2Upstream:
            nil
        }
    }

    func response(accept: ArraySlice<UInt8>?) -> OwnResponse {
        var response = OwnResponse(status: status, sentence: sentence, accept: accept)
        // Active requests end soon, so a retry may succeed.
        if let retryAfter { response.fieldLines = Array("Retry-After: \(retryAfter)\r\n".utf8) }
        return response
    }
}
