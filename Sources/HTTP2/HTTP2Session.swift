// Frames, streams, flow control and field compression of one HTTP/2 connection, client or server, implemented with nghttp2. No I/O:
// received bytes are passed to `receive`, and `write` writes output into memory. Belongs to one event loop. Tricky: the library calls back
// during `receive` and `write`. A callback must not call these two; it may call all other functions. A callback that ends the connection
// may release the session, which stays alive until the call returns.

import CNGHTTP2

public struct HTTP2SessionSettings: Sendable {
    /// Maximum number of concurrent streams that the peer may open. For servers; clients allow none.
    public var maximumStreams = 100
    /// Flow-control windows: maximum bytes of content in transit to us, of one stream and of all streams.
    public var streamWindowBytes: Int32 = 65_535
    public var connectionWindowBytes: Int32 = 65_535
    public var fieldLimits = HTTP2FieldLimits(bytes: 64 << 10, count: 256)

    public init() {}
}

public final class HTTP2Session {
    public enum Role: Sendable { case server, client }

    public enum Failure: Error, Equatable { case outOfMemory }

    /// Result of `receive`.
    public enum Receiving: Equatable, Sendable {
        case going
        /// No more bytes must be read. The connection ends when the remaining output was sent.
        case ended
    }

    let session: OpaquePointer
    let limits: HTTP2FieldLimits
    /// The delegate of the active call; nil outside calls.
    var delegate: (any HTTP2SessionDelegate)?
    /// The field section that is being received.
    var section = HTTP2FieldSection()
    /// Bytes of a frame that did not fit into the output. The library owns them until its next call.
    private var rest = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The part of the output buffer that `write` has not filled.
    var buffer = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    /// Whether no more bytes are read.
    var isEnded = false
    /// Lines that the library uses without a copy, until it has written all output.
    private var lent: [HTTP2ReusableFields] = []
    /// Number of such lines above which lines are copied, so that a peer that reads nothing does not keep more of them alive.
    private static let lentLimit = 1_024

    /// Minimum space in bytes for a frame of content, unless the content is shorter. Small frames cost more than they carry.
    static let minimumContentSpace = 2_048
    /// Size of a frame's head (RFC 9113 §4.1).
    public static let frameHeadBytes = 9
    /// Maximum size of a frame that is sent or received, including its head.
    public static let frameBytes = frameHeadBytes + 16_384

    /// Creates a session. The first output consists of SETTINGS, preceded by the preface for a client.
    public init(_ role: Role, _ settings: HTTP2SessionSettings = HTTP2SessionSettings()) throws(Failure) {
        limits = settings.fieldLimits
        var made: OpaquePointer?
        guard
            Self.withCallbacksAndOptions(
                role,
                { callbacks, options in
                    switch role {
                    case .server: nghttp2_session_server_new2(&made, callbacks, nil, options)
                    case .client: nghttp2_session_client_new2(&made, callbacks, nil, options)
                    }
                }), let made
        else { throw .outOfMemory }
        session = made
        nghttp2_session_set_user_data(made, Unmanaged.passUnretained(self).toOpaque())
        try submit(settings, role)
    }

    deinit { nghttp2_session_del(session) }

    private func submit(_ settings: HTTP2SessionSettings, _ role: Role) throws(Failure) {
        func entry(_ name: nghttp2_settings_id, _ value: Int) -> nghttp2_settings_entry {
            nghttp2_settings_entry(settings_id: Int32(bitPattern: name.rawValue), value: UInt32(clamping: value))
        }
        var entries = [
            entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, role == .server ? settings.maximumStreams : 0),
            entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, Int(settings.streamWindowBytes)),
            entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.fieldLimits.bytes),
        ]
        if role == .client { entries.append(entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)) }
        guard nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count) == 0,
            nghttp2_session_set_local_window_size(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, settings.connectionWindowBytes) == 0
        else { throw .outOfMemory }
    }

    // MARK: Bytes

    /// Processes all received bytes and reports their events.
    public func receive(_ bytes: UnsafeRawBufferPointer, notifying delegate: any HTTP2SessionDelegate) -> Receiving {
        guard !isEnded else { return .ended }
        enter(delegate)
        defer { leave() }
        let count = nghttp2_session_mem_recv(session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        // After an unrecoverable error the library sends nothing by default.
        if count < 0 { end(Self.code(of: count)) }
        return isEnded || nghttp2_session_want_read(session) == 0 ? .ended : .going
    }

    /// Writes as much output as fits.
    /// - Parameter buffer: space for at least one frame (`frameBytes`).
    /// - Returns: the number of bytes; 0 if there is no output now.
    public func write(into buffer: UnsafeMutableRawBufferPointer, notifying delegate: any HTTP2SessionDelegate) -> Int {
        enter(delegate)
        self.buffer = buffer
        defer { leave() }
        while true {
            let taken = min(rest.count, self.buffer.count)
            put(UnsafeRawBufferPointer(rebasing: rest[..<taken]))
            rest = UnsafeRawBufferPointer(rebasing: rest[taken...])
            // The library would continue after the GOAWAY that ends the connection.
            guard rest.isEmpty, !self.buffer.isEmpty, nghttp2_session_want_write(session) != 0 else { break }
            var frame: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &frame)
            guard count > 0 else { break }
            rest = UnsafeRawBufferPointer(start: frame, count: count)
        }
        if !lent.isEmpty, nghttp2_session_get_outbound_queue_size(session) == 0 { lent.removeAll(keepingCapacity: true) }
        return buffer.count - self.buffer.count
    }

    private func enter(_ delegate: any HTTP2SessionDelegate) {
        precondition(self.delegate == nil, "receive or write of an HTTP/2 session was called during a callback")
        self.delegate = delegate
    }

    private func leave() {
        // The delegate may have released this session.
        withExtendedLifetime(self) {
            delegate = nil
            buffer = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        }
    }

    func put(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return }
        buffer.copyMemory(from: bytes)
        buffer = UnsafeMutableRawBufferPointer(rebasing: buffer[bytes.count...])
    }

    /// Whether `write` would write something, as far as the library knows.
    public var wantsToWrite: Bool { !rest.isEmpty || nghttp2_session_want_write(session) != 0 }

    /// Whether both sides have finished.
    public var isFinished: Bool { (isEnded || nghttp2_session_want_read(session) == 0) && !wantsToWrite }

    /// Number of frames that wait to be written, except content.
    public var waitingFrames: Int { nghttp2_session_get_outbound_queue_size(session) }

    /// Releases memory that is needed only while streams are open. Must not be called while a field section is being received.
    public func releaseMemory() { section = HTTP2FieldSection() }

    // MARK: The peer

    /// Maximum number of concurrent streams that the peer allows.
    public var peerMaximumStreams: Int {
        Int(nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    /// Bytes of content that the peer currently accepts on all streams together.
    public var remoteWindowBytes: Int { Int(nghttp2_session_get_remote_window_size(session)) }

    /// Whether another request can be sent on this connection (RFC 9113 §5.1.1, §6.8).
    public var mayRequest: Bool { !isEnded && nghttp2_session_check_request_allowed(session) != 0 }

    // MARK: Sending (queued until `write`)

    /// - Returns: the stream; nil if the connection accepts no more requests.
    public func submitRequest(_ fields: HTTP2FieldList, hasContent: Bool) -> Int32? {
        let stream = withSource(hasContent) { source in
            fields.withPairs { nghttp2_submit_request(session, nil, $0, $1, source, nil) }
        }
        return stream > 0 ? stream : nil
    }

    /// - Returns: whether the response will be written. If not, nothing is sent on the stream.
    @discardableResult
    public func submitResponse(_ fields: HTTP2FieldList, hasContent: Bool, on stream: Int32) -> Bool {
        withSource(hasContent) { source in
            fields.withPairs { nghttp2_submit_response(session, stream, $0, $1, source) }
        } == 0
    }

    /// Sends a response with lines that are not copied.
    @discardableResult
    public func submitResponse(_ fields: HTTP2ReusableFields, hasContent: Bool, on stream: Int32) -> Bool {
        guard lent.count < Self.lentLimit else { return submitResponse(fields.list, hasContent: hasContent, on: stream) }
        lent.append(fields)
        return withSource(hasContent) { nghttp2_submit_response(session, stream, fields.pairs.baseAddress, fields.pairs.count, $0) } == 0
    }

    /// Sends a 1xx response.
    @discardableResult
    public func submitInformational(_ fields: HTTP2FieldList, on stream: Int32) -> Bool {
        fields.withPairs { nghttp2_submit_headers(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, nil, $0, $1, nil) } == 0
    }

    /// For tests: ends a stream after its last content was offered with `hasTrailers`.
    @discardableResult
    public func submitTrailers(_ fields: HTTP2FieldList, on stream: Int32) -> Bool {
        fields.withPairs { nghttp2_submit_trailer(session, stream, $0, $1) } == 0
    }

    /// Continues after `HTTP2ContentOffer.later`, when content is available again.
    public func resumeContent(of stream: Int32) { nghttp2_session_resume_data(session, stream) }

    /// Returns received bytes to both flow-control windows, of the connection and of the stream. The stream may already be closed.
    public func consume(_ count: Int, on stream: Int32) {
        guard count > 0 else { return }
        nghttp2_session_consume(session, stream, count)
    }

    /// Returns received bytes to the connection's window only. Called when content arrives, while `consumeStream` is called when it was
    /// used. A paused stream thus does not block other streams.
    public func consumeConnection(_ count: Int) {
        if count > 0 { nghttp2_session_consume_connection(session, count) }
    }

    public func consumeStream(_ count: Int, on stream: Int32) {
        if count > 0 { nghttp2_session_consume_stream(session, stream, count) }
    }

    public func reset(_ stream: Int32, _ code: HTTP2ErrorCode) {
        nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
    }

    public func ping() { nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil) }

    /// For servers: announces the end of the connection. Requests in transit are still accepted (RFC 9113 §6.8).
    public func announceEnd() { nghttp2_submit_shutdown_notice(session) }

    /// Accepts no requests beyond those received so far. Active requests continue.
    public func stopAccepting(_ code: HTTP2ErrorCode = .noError) {
        let last = nghttp2_session_get_last_proc_stream_id(session)
        nghttp2_submit_goaway(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, code.rawValue, nil, 0)
    }

    /// Reports no more events, not even for bytes that are being read.
    public func abandon() { isEnded = true }

    /// Ends the connection: no more bytes are read, and GOAWAY is the last output.
    public func end(_ code: HTTP2ErrorCode) {
        isEnded = true
        nghttp2_session_terminate_session(session, code.rawValue)
    }

    private func withSource(_ hasContent: Bool, _ body: (UnsafePointer<nghttp2_data_provider>?) -> Int32) -> Int32 {
        guard hasContent else { return body(nil) }
        var source = Self.contentSource
        return body(&source)
    }

    private static func code(of failure: Int) -> HTTP2ErrorCode {
        switch Int32(clamping: failure) {
        case NGHTTP2_ERR_FLOODED.rawValue, NGHTTP2_ERR_TOO_MANY_CONTINUATIONS.rawValue: .enhanceYourCalm
        case NGHTTP2_ERR_NOMEM.rawValue: .internalError
        default: .protocolError
        }
    }
}
