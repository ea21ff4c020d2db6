// Decides whether a request is sent again after its connection ended without a response (RFC 9110 §9.2.2, RFC 9112 §9.3.1).

/// Facts about the failed attempt.
struct RepeatRule {
    /// Whether the request is safe to send twice.
    let isRepeatable: Bool
    /// Whether the request was sent for the first time.
    let isFirst: Bool
    /// Whether a line of a response was received.
    let gotBytes: Bool
    /// Whether a part of the content was sent and is no longer buffered.
    let hasSentContent: Bool
    /// Whether the connection had been used before. The upstream may then have closed it before the request arrived.
    let onKept: Bool
    /// Whether no byte of the request was passed to the kernel.
    let isUnwritten: Bool
    /// Whether the upstream states that it did not process the request (RFC 9113 §8.7).
    var isRefused = false

    /// A request is sent at most twice. An unsafe request is repeated only if the upstream cannot have processed any of it.
    var isAllowed: Bool {
        guard isFirst, !gotBytes, !hasSentContent else { return false }
        return isRepeatable || isRefused || (onKept && isUnwritten)
    }
}
