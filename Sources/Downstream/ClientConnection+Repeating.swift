// Sends a recorded response again for a repeated request.

extension ClientConnection {
    /// Responds to a request that the receiver recognized in `repeated`.
    public func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        beginRepeated()
        sendComplete(response, endingWith: line)
    }
}
