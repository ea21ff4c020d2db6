// The interface that passes requests and their clients' events to the request flow. `ClientStream` is the interface in the other direction.
// All calls happen on the connection's event loop.

import HTTPCore

/// A received request: its head, and the framing of its content.
public struct ReceivedRequest {
    public let head: RequestHead
    public let framing: ContentFraming
    /// All bytes of the request, or its HTTP/2 field section. nil if the request has content, or did not arrive in one piece without other
    /// bytes. Valid only during the call of `received`.
    public let bytes: UnsafeRawBufferPointer?

    public init(head: RequestHead, framing: ContentFraming, bytes: UnsafeRawBufferPointer?) {
        (self.head, self.framing, self.bytes) = (head, framing, bytes)
    }
}

/// Receives each request of the connections of one shard. Implemented by the flow.
public protocol RequestReceiver: AnyObject {
    /// Called with the first bytes of a new request, or with an HTTP/2 field section that is a complete request. Not called for the last
    /// request of a connection. A receiver that recognizes the bytes of an earlier request (`ReceivedRequest.bytes`) responds with
    /// `sendAgain` and returns true. Otherwise the bytes are parsed.
    func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool

    /// Called with a complete, valid head. The receiver either responds at once through `stream` and returns nil (only if the framing is
    /// `.none`), or returns the exchange that will respond.
    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)?

    /// Called when a request was refused before it was passed on. The error response is being sent.
    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream)
}

extension RequestReceiver {
    public func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool { false }
}

/// A request that waits for its response. Receives the events of its client.
public protocol ClientExchange: AnyObject {
    /// Delivers more of the request's content. `stream.pauseContent()` pauses the client.
    func requestContent(_ bytes: Span<UInt8>)
    /// Called when the request's content is complete.
    func requestEnded()
    /// Called after `write` returned false, when enough output was sent that more may be written.
    func responseDrained()
    /// Called when the client has disconnected, sent invalid content or was too slow. Nothing can be sent any more. Not called after
    /// `endResponse`.
    func clientLeft()
    /// Called when the client, after a complete request, has closed its sending side. It may still read, or be disconnected; both look
    /// alike. See `ClientStream.hasPeerEnded`.
    func clientEnded()
    /// Called before the connection closes: the exchange must respond at once or not at all.
    func respondNow()
    /// Whether the exchange is counted among the active requests. False for Cistern's own pages, which report on other requests. Never
    /// changes.
    var isRequest: Bool { get }
}

extension ClientExchange {
    public var isRequest: Bool { true }
    public func respondNow() {}
    public func clientEnded() {}
}
