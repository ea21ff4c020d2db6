// Giving an answer again to a request that is, byte for byte, one that was answered before.

/// A request without content that arrived in one piece, with nothing before or behind it, and its answer.
package struct WholeExchange {
    package let request: UnsafeRawBufferPointer
    /// All that was sent; nil where there is no answer yet, or it was not put together in one piece, or the connection ended with it.
    package internal(set) var answer: UnsafeRawBufferPointer?
}

extension ClientConnection {
    /// What was just answered with `sendWhole`. Good until the receiver returns from `received`, and until the next answer.
    package var wholeExchange: WholeExchange? { isHandling ? table.whole : nil }

    /// Answers a request that the receiver's `repeated` knows.
    package func sendAgain(_ answer: UnsafeRawBufferPointer) {
        beginRepeated()
        sendComplete(answer)
    }
}
