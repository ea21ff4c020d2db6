// Giving a response again to a request that is, byte for byte, one that was answered before.

/// A request without content that arrived in one piece, with nothing before or behind it, and its response.
package struct WholeExchange {
    package let request: UnsafeRawBufferPointer
    /// All that was sent; nil where there is no response yet, or it was not put together in one piece, or the connection ended with it.
    package internal(set) var response: UnsafeRawBufferPointer?
}

extension ClientConnection {
    /// What was just answered with `sendWhole`. Good until the receiver returns from `received`, and until the next response.
    package var wholeExchange: WholeExchange? { isHandling ? table.whole : nil }

    /// Answers a request that the receiver's `repeated` knows.
    package func sendAgain(_ response: UnsafeRawBufferPointer) {
        beginRepeated()
        sendComplete(response)
    }
}
