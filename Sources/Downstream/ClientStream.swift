// The seam between the client's side and the flow: one request's content on its way in, and its response on the way out. HTTP/1.1 has it on a
// connection (`ClientConnection`); a protocol with several at once has it on a stream. All of it happens on the client's event loop.

import HTTPCore

/// Heads are given as HTTP/1.1 writes them, since that is how they are stored: status line, field lines, no empty line. Framing and connection
/// fields are the stream's own matter.
public protocol ClientStream: AnyObject {
    /// What the flow keeps with the client's connection. Nothing can be kept where a connection carries several requests at once (HTTP/2).
    var companion: (any ConnectionCompanion)? { get set }
    /// Whether the connection carries several requests at once.
    var isMultiplexed: Bool { get }
    /// Where the connection came in.
    var listener: Listener { get }
    /// Where the connection comes from.
    var peer: PeerAddress { get }
    /// Whose this request is.
    var client: RequestClient { get }
    /// Says that the request is another's than the peer's. Good for this request only.
    func attribute(to client: RequestClient)
    /// Of the client's connection; nil in clear.
    var security: ConnectionSecurity? { get }

    // MARK: The request

    /// From now on another is told what the client does. The content has no time-out as a whole with it.
    func handOver(to exchange: any ClientExchange)
    /// The content is held until it is whole: all of it has to come in time. Called before any of it is told.
    func startContentTotal()
    /// Holds the client back: no more content comes until `resumeContent`.
    func pauseContent()
    func resumeContent()
    /// Whether the client waits to be told to send its content (RFC 9110 §10.1.1).
    var isContinueAwaited: Bool { get }
    /// Tells the client to send its content, where it waits for that.
    func sendContinue()
    /// The client sends no more, perhaps after what is yet to be read. It may still read, or be gone: both look alike.
    var hasPeerEnded: Bool { get }

    // MARK: The response

    /// A 1xx response, where the client understands it (RFC 9110 §15.2).
    func sendInformational(_ head: ResponseHead)
    /// Sends a complete response. To HEAD the body is left out.
    /// - Parameter lines: more field lines.
    /// - Returns: all that was sent, where it was one piece and another request may get the same. Good until the next response.
    @discardableResult
    func sendWhole(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, body: WholeBody) -> UnsafeRawBufferPointer?
    /// Whether another request may come after this response.
    var staysOpen: Bool { get }
    /// Sends what `sendWhole` has returned for a request of the same method and version. Only where `staysOpen`.
    /// - Parameter line: with its end; goes out in the place of the last of the response's field lines.
    func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?)
    /// The same for a request that the receiver's `repeated` knows.
    func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?)
    /// Whether content of unknown length can be sent.
    var takesChunks: Bool { get }
    /// Sends a response whose content is made while it goes out, its length among the fields of `head` where it is known; else only where
    /// `takesChunks`.
    func sendProduced(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, content producer: any ContentProducer)
    /// Empty, with the memory of a response that has gone out where there is any: for the next one's head.
    func spareOutput() -> [UInt8]
    /// What `startResponse` will put behind a head, in bytes: so that it need not grow.
    func roomNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int
    /// Begins a response whose content follows in pieces.
    /// - Parameters:
    ///   - head: status line and field lines, with room behind them.
    ///   - lines: more field lines.
    ///   - readAhead: so much content is taken however slowly the client reads, in bytes, where there is memory for it.
    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int)
    /// - Returns: false where so much waits to be sent that the flow should stop until `responseDrained`.
    func write(_ bytes: Span<UInt8>) -> Bool
    func endResponse()
    /// Takes back a response that was begun with `startResponse`, so that another can be given instead.
    /// - Returns: false where some of it may have gone out.
    func takeBackResponse() -> Bool
    /// Ends a broken response in such a way that nobody takes it for whole.
    func abortResponse()
}

/// State of the flow that lasts as long as one client's connection.
public protocol ConnectionCompanion: AnyObject {
    func clientConnectionEnded()
}

extension ClientStream {
    public func spareOutput() -> [UInt8] { [] }

    /// The same for one who has arrays.
    public func sendWhole(head: [UInt8], lines: [UInt8] = [], body: WholeBody) {
        head.withUnsafeBytes { head in
            lines.withUnsafeBytes { lines in _ = sendWhole(head: head, lines: lines, body: body) }
        }
    }
}

extension ClientConnection: ClientStream {}
