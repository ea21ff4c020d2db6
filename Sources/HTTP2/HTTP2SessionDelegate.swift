// The events of an HTTP/2 connection, reported during `HTTP2Session.receive` or `HTTP2Session.write`. A delegate must not call these two
// functions. It may call the session's other functions, which only queue output.

/// The kind of a field section (RFC 9113 §8.1).
public enum HTTP2SectionKind: Sendable, Equatable {
    /// The head of a request or a response, including 1xx.
    case head
    case trailers
}

/// The content of a stream that can be sent now.
public enum HTTP2ContentOffer: Equatable {
    /// A number of bytes. If they are the last ones, the stream ends with them, or with trailers that were submitted before.
    case bytes(Int, isLast: Bool, hasTrailers: Bool = false)
    /// No bytes now. The delegate calls `HTTP2Session.resumeContent` when there are some.
    case later
    /// No more content will follow. The stream is reset with INTERNAL_ERROR.
    case broken
}

public protocol HTTP2SessionDelegate: AnyObject {
    /// Called with a complete field section, which is valid by RFC 9113 §8 as far as the library checks. If it `isTooLarge`, lines are
    /// missing. The section is valid only during the call.
    func received(_ section: borrowing HTTP2FieldSection, _ kind: HTTP2SectionKind, on stream: Int32, endsStream: Bool)
    /// Called with a piece of a stream's content, valid only during the call. The peer can send more after `consume`.
    func receivedContent(_ bytes: UnsafeRawBufferPointer, on stream: Int32)
    /// Called when the peer has ended the stream after content or trailers. Not called after a head that ends its stream.
    func receivedEnd(of stream: Int32)
    /// Called when all output of a stream was written.
    func sentEnd(of stream: Int32)
    /// Called when the stream is closed; no more events follow. `noError`: both sides had ended it.
    func streamClosed(_ stream: Int32, _ code: HTTP2ErrorCode)

    /// Returns what can be sent now of the content of a submitted response or request.
    /// - Parameter limit: maximum number of bytes; never 0.
    func offerContent(of stream: Int32, limit: Int) -> HTTP2ContentOffer
    /// Copies exactly the bytes that were offered last, and removes them from the content.
    func takeContent(of stream: Int32, into buffer: UnsafeMutableRawBufferPointer)

    /// Called when a request's head was written.
    func sentRequest(on stream: Int32)
    /// Called when the peer's settings, or changes of them, were received.
    func receivedSettings()
    /// Called when the peer opens no more streams, and processes none above `last` (RFC 9113 §6.8).
    func receivedGoAway(last: Int32, _ code: HTTP2ErrorCode)
    /// Called when the peer has acknowledged a `ping`.
    func receivedPingAcknowledgement()
    /// A stream was reset.
    /// - Parameter isByPeer: false if it was reset by `reset`, or by the library because of a violation by the peer.
    func streamReset(_ stream: Int32, _ code: HTTP2ErrorCode, isByPeer: Bool)
    /// Called when the connection was ended by `end`, or by the library because of a violation by the peer.
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
