// Causes that other modules count, as values of labels.

public enum HandshakeFailure: String, Sendable, CaseIterable {
    /// The client's bytes are not valid TLS.
    case malformed
    /// The client closed the connection.
    case ended
    /// The client sent cleartext HTTP. It receives a 400 response.
    case clear
    /// Client and server have no common version, cipher suite or group.
    case parameters
    /// The client offers no common application protocol (ALPN).
    case `protocol`
    /// The client's certificate is missing or invalid.
    case certificate
    /// The client aborted the handshake, usually because it does not trust the certificate.
    case refused
    /// The handshake took too long.
    case timeout
    /// The handshake was ended because too many others began, or at the connection limit.
    case crowded
}

/// Why a span was not delivered.
public enum SpanLoss: String, Sendable, CaseIterable {
    /// Too many spans waited.
    case queueFull = "queue_full"
    /// The endpoint rejected the span.
    case rejected
    /// The endpoint was unreachable or failing for too long.
    case undelivered
}
