// Whether a request is sent once more after its connection ended without a response (RFC 9110 §9.2.2, RFC 9112 §9.3.1).

/// What is known of the sending that failed.
struct RepeatRule {
    /// It changes nothing, however often it arrives.
    let isRepeatable: Bool
    /// It was sent for the first time.
    let isFirst: Bool
    /// A line of a response has come.
    let gotBytes: Bool
    /// Some of its content is gone, and not held any more.
    let hasSentContent: Bool
    /// The connection had been used before: the upstream may have ended it before the request came.
    let onKept: Bool
    /// Not a byte of it was handed to the kernel.
    let isUnwritten: Bool
    /// The upstream says that it has done nothing with it (RFC 9113 §8.7).
    var isRefused = false

    /// Never for the third time. What may change something, only where the upstream cannot have seen any of it.
    var isAllowed: Bool {
        guard isFirst, !gotBytes, !hasSentContent else { return false }
        return isRepeatable || isRefused || (onKept && isUnwritten)
    }
}
