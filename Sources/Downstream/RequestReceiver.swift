// The seam between the listener's side and the flow: who is given a request, and who is told what its client does meanwhile. What may be done with
// the client is `ClientStream`. All of it happens on the connection's event loop.

import HTTPCore

/// A request as it has arrived: its head, and how its content will come.
public struct ReceivedRequest {
    public let head: RequestHead
    public let framing: ContentFraming
    /// All that it consists of, where it has no content and arrived in one piece, with nothing before or behind it: its bytes, or the field section
    /// of HTTP/2. Good until the receiver returns from `received`, and not to be kept.
    public let bytes: UnsafeRawBufferPointer?

    public init(head: RequestHead, framing: ContentFraming, bytes: UnsafeRawBufferPointer?) {
        (self.head, self.framing, self.bytes) = (head, framing, bytes)
    }
}

/// Is given each request of the connections of one shard. Implemented by the flow.
public protocol RequestReceiver: AnyObject {
    /// Bytes have arrived where a new request is due, or a field section of HTTP/2 that is all of a request, and the connection goes on after its
    /// response. A receiver that knows them as a whole request (`ReceivedRequest.bytes`) responds with `sendAgain` as it did then, and returns
    /// true; else they are parsed.
    func repeated(_ bytes: UnsafeRawBufferPointer, on stream: any ClientStream) -> Bool

    /// A complete, valid head has arrived. The receiver responds at once through `stream` and returns nil (only where the framing is `.none`), or
    /// returns the exchange that will.
    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)?

    /// A request was refused before it could be understood; the response is on its way.
    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream)
}

extension RequestReceiver {
    public func repeated(_ bytes: UnsafeRawBufferPointer, on stream: any ClientStream) -> Bool { false }
}

/// One request that waits for its response: is told what the client does meanwhile.
public protocol ClientExchange: AnyObject {
    /// More of the request's content. To hold the client back, call `stream.pauseContent()`.
    func requestContent(_ bytes: Span<UInt8>)
    /// The request's content is whole.
    func requestEnded()
    /// What was written has gone out far enough that more may be written (after `write` returned false).
    func responseDrained()
    /// The client is gone, or its content was badly framed, or it was too slow: nothing can be sent any more.
    /// Not called once `endResponse` was.
    func clientLeft()
    /// The client, whose request is whole, sends no more. It may still read, or be gone: both look alike. See `ClientStream.hasPeerEnded`.
    func clientEnded()
    /// The connection is about to close: respond at once, or not at all.
    func respondNow()
    /// Whether it is counted among those under way: for pages of our own somebody asks who wants to know of the others. Never changes.
    var isRequest: Bool { get }
}

extension ClientExchange {
    public var isRequest: Bool { true }
    public func respondNow() {}
    public func clientEnded() {}
}
