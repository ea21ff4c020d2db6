// Giving a response again to a request that is like one that was answered before.

extension ClientConnection {
    /// Answers a request that the receiver's `repeated` knows.
    package func sendAgain(_ response: UnsafeRawBufferPointer) {
        beginRepeated()
        sendComplete(response)
    }
}
