// The interface between a client's connection and the request flow: a request's content and its response. HTTP/1.1 implements it with a
// connection (`ClientConnection`), HTTP/2 with a stream (`HTTP2Stream`). All calls happen on the client's event loop.

import HTTPCore

/// One request and its response, as seen by the flow. Heads have HTTP/1.1 form, as in the store: status line and field lines, without the
/// empty line. The stream adds the framing and connection fields.
public protocol ClientStream: AnyObject {
    /// State of the flow that lasts as long as the client's connection; always nil on multiplexed connections (HTTP/2).
    var companion: (any ConnectionCompanion)? { get set }
    /// Whether the connection carries several requests at once.
    var isMultiplexed: Bool { get }
    /// The listener that accepted the connection.
    var listener: Listener { get }
    /// The remote address of the connection, or the one that a PROXY protocol header names.
    var peer: PeerAddress { get }
    /// The client that the current request belongs to.
    var client: RequestClient { get }
    /// Assigns the current request to another client than the peer.
    func attribute(to client: RequestClient)
    /// TLS properties of the connection; nil for cleartext.
    var security: ConnectionSecurity? { get }

    // MARK: The request

    /// Transfers the request to another exchange, which receives the client's further events. Ends the timeout of the content as a whole.
    func handOver(to exchange: any ClientExchange)
    /// Starts the timeout for the content as a whole, which is buffered until complete. Must be called before any content is delivered.
    func startContentTotal()
    /// Stops delivery of content until `resumeContent`.
    func pauseContent()
    func resumeContent()
    /// Whether the client waits for a 100 (Continue) response before it sends its content (RFC 9110 §10.1.1).
    var isContinueAwaited: Bool { get }
    /// Sends a 100 (Continue) response if the client waits for one.
    func sendContinue()
    /// Whether the client has closed its sending side, perhaps after bytes that are still unread. The client may still read, or be
    /// disconnected; both look alike.
    var hasPeerEnded: Bool { get }

    // MARK: The response

    /// Sends a 1xx response if the client understands it (RFC 9110 §15.2).
    func sendInformational(_ head: ResponseHead)
    /// Sends a complete response. Responses to HEAD omit the body.
    /// - Parameter lines: more field lines.
    /// - Returns: the bytes sent, if the response was sent in one piece and may be repeated; otherwise nil.
    @discardableResult
    func sendWhole(head: Span<UInt8>, lines: Span<UInt8>, body: WholeBody) -> SentBytes?
    /// Whether another request may follow this response.
    var staysOpen: Bool { get }
    /// Sends a response that `sendWhole` returned for a request of equal method and version. Requires `staysOpen`.
    /// - Parameter line: replaces the last field line of the response; nil to keep it. Includes its line end.
    func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?)
    /// Sends a response as `sendComplete` does, for a request that the receiver recognized in `repeated`.
    func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?)
    /// Whether content of unknown length can be sent.
    var takesChunks: Bool { get }
    /// Sends a response with content that is produced while it is sent. If the length is known, `head` has it; otherwise `takesChunks` must
    /// be true.
    func sendProduced(head: Span<UInt8>, lines: Span<UInt8>, content producer: any ContentProducer)
    /// Returns an empty array for the next head, with reused memory if available.
    func spareOutput() -> [UInt8]
    /// Number of bytes that `startResponse` appends to a head, so that the caller can reserve them.
    func spaceNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int
    /// Begins a response with content that follows in pieces.
    /// - Parameters:
    ///   - head: status line and field lines, with reserved capacity.
    ///   - lines: more field lines.
    ///   - readAhead: bytes of content that are buffered however slowly the client reads, if memory allows.
    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int)
    /// Sends a piece of content.
    /// - Returns: false if so many bytes wait that the caller should pause until `responseDrained`.
    func write(_ bytes: Span<UInt8>) -> Bool
    func endResponse()
    /// Withdraws a response that `startResponse` has begun, so that another one can be sent.
    /// - Returns: false if a part of it may have been sent.
    func takeBackResponse() -> Bool
    /// Ends a broken response so that the client can detect that it is incomplete.
    func abortResponse()
}

/// The bytes of a response that was sent in one piece. Valid until the next response.
public struct SentBytes {
    public let bytes: UnsafeRawBufferPointer

    public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }
}

/// State of the flow that lasts as long as one client's connection.
public protocol ConnectionCompanion: AnyObject {
    func clientConnectionEnded()
}

extension ClientStream {
    public func spareOutput() -> [UInt8] { [] }

    /// Sends a complete response from arrays.
    public func sendWhole(head: [UInt8], lines: [UInt8] = [], body: WholeBody) {
        sendWhole(head: head.span, lines: lines.span, body: body)
    }
}

extension ClientConnection: ClientStream {}
