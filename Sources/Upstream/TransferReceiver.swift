// The interface between the upstream side and the flow: requests to the upstream, and events of their responses. All calls happen on the
// client's event loop.

import HTTPCore

/// A request to the upstream, sent unchanged. Hop-by-hop fields are already removed, and Host and the forwarding fields are set.
public struct UpstreamRequest: Sendable {
    public var method: Method
    /// The request target, byte for byte as in the request line.
    public var target: ArraySlice<UInt8>
    public var fields: Fields
    public var content: ContentFraming
    /// Whether the request may be sent twice: safe methods (RFC 9110 §9.2.1), and requests that the configuration declares as reading.
    public var isRepeatable: Bool
    /// The shares of the connections in which the request counts while it has a connection.
    public var shares: ConnectionShares = []
    /// The client's own connection, which the request must use; nil to use any connection of the pool.
    public var owned: OwnedConnection?
    /// Number of the client; nil if unknown.
    public var client: UInt64?
    /// Whether no client waits for the request. It then waits for a connection behind all others.
    public var isBackground = false

    public init(method: Method, target: ArraySlice<UInt8>, fields: Fields, content: ContentFraming = .none, isRepeatable: Bool = false) {
        self.method = method
        self.target = target
        self.fields = fields
        self.content = content
        self.isRepeatable = isRepeatable || method.isSafe
    }

    /// Value of Content-Length; nil for no field. Methods that usually have content get 0 if there is none (RFC 9110 §8.6).
    var contentLength: Int? {
        switch content {
        case .none: method.promisesContent ? 0 : nil
        case .length(let count): count
        case .chunked, .tunnel: nil
        }
    }

    /// Length of the content; nil if it is unknown.
    var boundedLength: Int? {
        switch content {
        case .none: 0
        case .length(let count): count
        case .chunked, .tunnel: nil
        }
    }

    var hasContent: Bool { boundedLength != 0 }
}

extension Method {
    fileprivate var promisesContent: Bool {
        switch self {
        case .post, .put, .patch: true
        case .get, .head, .delete, .connect, .options, .trace, .query, .other: false
        }
    }
}

/// Receives the events of a transfer. `transferEnded` or `transferFailed` is the last one.
public protocol TransferReceiver: AnyObject {
    /// Called when sending of the request begins. It may be called twice if a connection turns out to be dead, and before `start` returns.
    func transferBegins()
    /// Delivers a 1xx response other than 101. A 100 response is delivered only if the request has Expect.
    func transfer(_ transfer: Transfer, informational head: ResponseHead)
    /// Delivers the final response's head. Fields are as sent, including the framing fields (Transfer-Encoding, Content-Length).
    func transfer(_ transfer: Transfer, received head: consuming ResponseHead)
    /// Delivers content, without transfer coding and with content coding as sent. `transfer.pause()`, here or later, stops further
    /// delivery. No content is delivered twice.
    func transfer(_ transfer: Transfer, content: Span<UInt8>)
    /// Called when the response is complete by its framing. `isDelimited` is false if only the end of the connection marked the end.
    func transferEnded(_ transfer: Transfer, isDelimited: Bool)
    func transferFailed(_ transfer: Transfer, _ error: UpstreamError)
    /// Called when the upstream has accepted the request's content, and more may be written.
    func transferDrained(_ transfer: Transfer)
}

extension TransferReceiver {
    public func transferBegins() {}
}
