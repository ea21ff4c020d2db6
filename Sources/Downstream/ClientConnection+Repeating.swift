// Giving a response again to a request that is like an earlier one.

extension ClientConnection {
    /// Responds to a request that the receiver's `repeated` knows.
    public func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        beginRepeated()
        sendComplete(response, endingWith: line)
    }
}
