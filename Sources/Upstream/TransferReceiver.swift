// The seam between the upstream side and the flow: what is asked of the origin, and what comes back. All on the client's event loop.

import HTTPCore

/// What to send to the origin. Hop-by-hop fields are gone already, Host and the forwarding fields are set: it is sent as it stands.
public struct UpstreamRequest: Sendable {
    public var method: Method
    /// The request target, byte for byte as it goes on the request line.
    public var target: ArraySlice<UInt8>
    public var fields: Fields
    public var content: ContentFraming
    /// Whether it changes nothing, so that it may be sent for a second time: safe methods (RFC 9110 §9.2.1), and what the operator says
    /// only reads.
    public var isRepeatable: Bool
    /// The shares of the connections that it takes part of while it has one.
    public var shares: ConnectionShares = []
    /// The client's own connection, over which it has to go. nil: any of the pool will do.
    public var owned: OwnedConnection?
    /// A number of its client. nil if none is known.
    public var client: UInt64?
    /// No client waits for it: so it waits behind all others for a connection.
    public var isBackground = false

    public init(method: Method, target: ArraySlice<UInt8>, fields: Fields, content: ContentFraming = .none, isRepeatable: Bool = false) {
        self.method = method
        self.target = target
        self.fields = fields
        self.content = content
        self.isRepeatable = isRepeatable || method.isSafe
    }

    /// What Content-Length says; nil where it is left out. Methods that promise content say that there is none (RFC 9110 §8.6).
    var contentLength: Int? {
        switch content {
        case .none: method.promisesContent ? 0 : nil
        case .length(let count): count
        case .chunked, .tunnel: nil
        }
    }

    var hasContent: Bool {
        switch content {
        case .none, .length(0): false
        case .length, .chunked, .tunnel: true
        }
    }
}

extension Method {
    fileprivate var promisesContent: Bool {
        switch self {
        case .post, .put, .patch: true
        case .get, .head, .delete, .connect, .options, .trace, .query, .other: false
        }
    }
}

/// Is told what a transfer brings. After `transferEnded` or `transferFailed` nothing more comes.
public protocol TransferReceiver: AnyObject {
    /// The request goes out now. It may, once more, where the connection turns out to be dead; and before `start` returns.
    func transferBegins(_ transfer: Transfer)
    /// A 1xx response other than 101; 100 only where the request has Expect.
    func transfer(_ transfer: Transfer, informational head: ResponseHead)
    /// The final response's head. Fields are as sent; framing fields (Transfer-Encoding, Content-Length) are still there.
    func transfer(_ transfer: Transfer, received head: consuming ResponseHead)
    /// More content, transfer coding removed, content coding as sent. To be sent no more for now, call `transfer.pause()`
    /// here or later; what arrived is never delivered twice.
    func transfer(_ transfer: Transfer, content: Span<UInt8>)
    /// The response is complete by its framing. `isDelimited` is false where only the end of the connection marked the end.
    func transferEnded(_ transfer: Transfer, isDelimited: Bool)
    func transferFailed(_ transfer: Transfer, _ error: UpstreamError)
    /// The upstream took what was written of the request's content: more may be written.
    func transferDrained(_ transfer: Transfer)
}

extension TransferReceiver {
    public func transferBegins(_ transfer: Transfer) {}
}
