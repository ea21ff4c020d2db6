// Who is told what happens on an HTTP/2 connection. All of it is told while `HTTP2Session.receive` or `HTTP2Session.write` runs: what is told may
// call the session's other functions, which only queue, and never these two.

/// Which of a stream's field sections has come (RFC 9113 §8.1).
public enum HTTP2SectionKind: Sendable, Equatable {
    /// A request's head, or a response's, 1xx too.
    case head
    case trailers
}

/// What of a stream's content can go out now.
public enum HTTP2ContentOffer: Equatable {
    /// So many bytes; where they are the last ones the stream ends with them, or trailers follow that were submitted by then.
    case bytes(Int, isLast: Bool, hasTrailers: Bool = false)
    /// None: `HTTP2Session.resumeContent` tells when there are some.
    case later
    /// No more will come: the stream is reset with INTERNAL_ERROR.
    case broken
}

public protocol HTTP2SessionDelegate: AnyObject {
    /// A field section is whole, and good by RFC 9113 §8 as far as the library judges; where it `isTooLarge` lines are missing. It is good
    /// during the call only.
    func received(_ section: borrowing HTTP2FieldSection, _ kind: HTTP2SectionKind, on stream: Int32, endsStream: Bool)
    /// A piece of a stream's content, good during the call only. Its peer sends more when as much is given back by `consume`.
    func receivedContent(_ bytes: UnsafeRawBufferPointer, on stream: Int32)
    /// A stream's peer has sent all that it will, after content or trailers; not told after a head that ends its stream.
    func receivedEnd(of stream: Int32)
    /// All that we send on a stream has been written.
    func sentEnd(of stream: Int32)
    /// The stream is gone; nothing more is told of it. `noError`: both sides had ended.
    func streamClosed(_ stream: Int32, _ code: HTTP2ErrorCode)

    /// What of the content of a response or request that was submitted can go out now.
    /// - Parameter limit: in bytes; never 0.
    func offerContent(of stream: Int32, limit: Int) -> HTTP2ContentOffer
    /// Copies the bytes that were offered last, exactly as many, and is rid of them.
    func takeContent(of stream: Int32, into place: UnsafeMutableRawBufferPointer)

    /// A request's head has been written.
    func sentRequest(on stream: Int32)
    /// The peer's settings, or changes of them.
    func receivedSettings()
    /// The peer starts no more streams, and handles none above `last` (RFC 9113 §6.8).
    func receivedGoAway(last: Int32, _ code: HTTP2ErrorCode)
    /// The peer has answered a `ping`.
    func receivedPingAcknowledgement()
    /// A stream was reset.
    /// - Parameter isByPeer: else by us: by `reset`, or by the library for what the peer did wrong.
    func streamReset(_ stream: Int32, _ code: HTTP2ErrorCode, isByPeer: Bool)
    /// We have ended the connection: by `end`, or the library for what the peer did wrong.
    func sentGoAway(_ code: HTTP2ErrorCode)
}

extension HTTP2SessionDelegate {
    public func sentEnd(of stream: Int32) {}
    public func sentRequest(on stream: Int32) {}
    public func receivedSettings() {}
    public func receivedGoAway(last: Int32, _ code: HTTP2ErrorCode) {}
    public func receivedPingAcknowledgement() {}
    public func streamReset(_ stream: Int32, _ code: HTTP2ErrorCode, isByPeer: Bool) {}
    public func sentGoAway(_ code: HTTP2ErrorCode) {}
}
