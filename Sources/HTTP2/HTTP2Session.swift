// One HTTP/2 connection's frames, streams, windows and field tables, of either side, by nghttp2. No I/O: bytes that came are given to `receive`,
// and what is to be sent is written into memory by `write`. Belongs to one loop.
//
// Tricky: the library calls back in the middle of `receive` and `write`, where neither may be called again; everything else may. Who ends a
// connection in such a call lets go of the session, which stays alive until the call is over.

import CNGHTTP2

public struct HTTP2SessionSettings: Sendable {
    /// Streams that the peer may have open at once. A server's; a client takes none.
    public var maximumStreams = 100
    /// Content that may be on its way to us, of one stream and of all together.
    public var streamWindowBytes: Int32 = 65_535
    public var connectionWindowBytes: Int32 = 65_535
    public var fieldLimits = HTTP2FieldLimits(bytes: 64 << 10, count: 256)

    public init() {}
}

public final class HTTP2Session {
    public enum Role: Sendable { case server, client }

    public enum Failure: Error, Equatable { case outOfMemory }

    /// What `receive` has come to.
    public enum Receiving: Equatable, Sendable {
        case going
        /// Nothing more is to be read: the connection ends when what is to be written has gone out.
        case ended
    }

    let session: OpaquePointer
    let limits: HTTP2FieldLimits
    /// Whom the call that runs tells.
    var delegate: (any HTTP2SessionDelegate)?
    /// The field section that is coming.
    var section = HTTP2FieldSection()
    /// Frames of the library that found no room yet; they are the library's until its next call.
    private var rest = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Where `write` writes, while it runs.
    var place = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    /// Nothing is read any more.
    var isEnded = false
    /// Lines that the library reads where they lie, until it has written all that it has.
    private var lent: [HTTP2KeptFields] = []
    /// More are copied: a peer that takes nothing for long keeps no more alive.
    private static let lentLimit = 1_024

    /// No content goes out where there is less room than this, unless it is all that there is: small frames cost more than they carry.
    static let leastContentRoom = 2_048
    /// A frame's head (RFC 9113 §4.1).
    public static let frameHeadBytes = 9
    /// The longest frame that is written or taken, with its head.
    public static let frameBytes = frameHeadBytes + 16_384

    /// Our SETTINGS, and as a client the preface, are the first that `write` writes.
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

    /// Takes bytes of the peer, all of them, and tells what they bring.
    public func receive(_ bytes: UnsafeRawBufferPointer, telling delegate: any HTTP2SessionDelegate) -> Receiving {
        guard !isEnded else { return .ended }
        enter(delegate)
        defer { leave() }
        let count = nghttp2_session_mem_recv(session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        // An error that the library cannot go on from leaves it without words.
        if count < 0 { end(Self.code(of: count)) }
        return isEnded || nghttp2_session_want_read(session) == 0 ? .ended : .going
    }

    /// Writes what is to be sent, as much as there is room for.
    /// - Parameter place: room for one frame at least (`frameBytes`).
    /// - Returns: how many bytes; 0 where there is nothing to send now.
    public func write(into place: UnsafeMutableRawBufferPointer, telling delegate: any HTTP2SessionDelegate) -> Int {
        enter(delegate)
        self.place = place
        defer { leave() }
        while true {
            let taken = min(rest.count, self.place.count)
            put(UnsafeRawBufferPointer(rebasing: rest[..<taken]))
            rest = UnsafeRawBufferPointer(rebasing: rest[taken...])
            // The library would go on behind the GOAWAY that ends the connection.
            guard rest.isEmpty, !self.place.isEmpty, nghttp2_session_want_write(session) != 0 else { break }
            var frame: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &frame)
            guard count > 0 else { break }
            rest = UnsafeRawBufferPointer(start: frame, count: count)
        }
        if !lent.isEmpty, nghttp2_session_get_outbound_queue_size(session) == 0 { lent.removeAll(keepingCapacity: true) }
        return place.count - self.place.count
    }

    private func enter(_ delegate: any HTTP2SessionDelegate) {
        precondition(self.delegate == nil, "an HTTP/2 session was entered twice")
        self.delegate = delegate
    }

    private func leave() {
        // Who is told may have let go of this session.
        withExtendedLifetime(self) {
            delegate = nil
            place = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        }
    }

    func put(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return }
        place.copyMemory(from: bytes)
        place = UnsafeMutableRawBufferPointer(rebasing: place[bytes.count...])
    }

    /// Whether `write` would write something, as far as the library knows.
    public var wantsToWrite: Bool { !rest.isEmpty || nghttp2_session_want_write(session) != 0 }

    /// Whether neither side has anything more to say.
    public var isFinished: Bool { (isEnded || nghttp2_session_want_read(session) == 0) && !wantsToWrite }

    /// Frames that wait to be written, content apart.
    public var waitingFrames: Int { nghttp2_session_get_outbound_queue_size(session) }

    /// Frees what is only needed while streams are open. Not while a field section is coming.
    public func releaseMemory() { section = HTTP2FieldSection() }

    // MARK: The peer

    /// The streams that the peer takes at once.
    public var peerMaximumStreams: Int {
        Int(nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    /// Whether another request can be made on this connection (RFC 9113 §5.1.1, §6.8).
    public var mayRequest: Bool { !isEnded && nghttp2_session_check_request_allowed(session) != 0 }

    // MARK: Sending (queued until `write`)

    /// - Returns: the stream; nil where this connection takes no more.
    public func submitRequest(_ fields: HTTP2FieldList, hasContent: Bool) -> Int32? {
        let stream = withSource(hasContent) { source in
            fields.withPairs { nghttp2_submit_request(session, nil, $0, $1, source, nil) }
        }
        return stream > 0 ? stream : nil
    }

    /// - Returns: whether it is going to be written; else nothing is said on the stream.
    @discardableResult
    public func submitResponse(_ fields: HTTP2FieldList, hasContent: Bool, on stream: Int32) -> Bool {
        withSource(hasContent) { source in
            fields.withPairs { nghttp2_submit_response(session, stream, $0, $1, source) }
        } == 0
    }

    /// The same with lines that are not copied.
    @discardableResult
    public func submitResponse(_ fields: HTTP2KeptFields, hasContent: Bool, on stream: Int32) -> Bool {
        guard lent.count < Self.lentLimit else { return submitResponse(fields.list, hasContent: hasContent, on: stream) }
        lent.append(fields)
        return withSource(hasContent) { nghttp2_submit_response(session, stream, fields.pairs.baseAddress, fields.pairs.count, $0) } == 0
    }

    /// A 1xx response.
    @discardableResult
    public func submitInformational(_ fields: HTTP2FieldList, on stream: Int32) -> Bool {
        fields.withPairs { nghttp2_submit_headers(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, nil, $0, $1, nil) } == 0
    }

    /// What ends a stream whose last content was offered with `hasTrailers`.
    @discardableResult
    public func submitTrailers(_ fields: HTTP2FieldList, on stream: Int32) -> Bool {
        fields.withPairs { nghttp2_submit_trailer(session, stream, $0, $1) } == 0
    }

    /// There is content again, after `HTTP2ContentOffer.later`.
    public func resumeContent(of stream: Int32) { nghttp2_session_resume_data(session, stream) }

    /// So much of a stream's content has been used: its peer may send as much again. Also for a stream that is closed by now.
    public func consume(_ count: Int, on stream: Int32) {
        guard count > 0 else { return }
        nghttp2_session_consume(session, stream, count)
    }

    /// The same in two steps: what all streams share is given back as soon as content has come, the stream's own when it has been used. So one
    /// whose content waits stops no other.
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

    /// A server's: the connection is going to end, and requests that are on their way are still taken (RFC 9113 §6.8).
    public func announceEnd() { nghttp2_submit_shutdown_notice(session) }

    /// No request is taken that has not come by now; those that have go on.
    public func takeNoMore(_ code: HTTP2ErrorCode = .noError) {
        let last = nghttp2_session_get_last_proc_stream_id(session)
        nghttp2_submit_goaway(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, code.rawValue, nil, 0)
    }

    /// Tells nothing any more, not even of what is being read.
    public func abandon() { isEnded = true }

    /// Ends the connection: nothing is read any more, and the GOAWAY is the last that is written.
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
