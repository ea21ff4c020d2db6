// Callbacks of the library, called while it reads and writes.

import CNGHTTP2

/// Makes the library stop, so that no more events are reported.
private let failed = NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
/// Makes the library reset the stream.
private let streamFailed = NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
private let paused = NGHTTP2_ERR_PAUSE.rawValue

/// The caller retains the session, so it is not retained here. There are about a dozen callbacks per request.
@inline(__always)
private func withOwner<Result>(_ pointer: UnsafeMutableRawPointer?, _ body: (HTTP2Session) -> Result) -> Result {
    Unmanaged<HTTP2Session>.fromOpaque(pointer!)._withUnsafeGuaranteedRef { body($0) }
}

extension HTTP2Session {
    static func withCallbacksAndOptions(_ role: Role, _ body: (OpaquePointer, OpaquePointer) -> Int32) -> Bool {
        var callbacks: OpaquePointer?
        var options: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks else { return false }
        defer { nghttp2_session_callbacks_del(callbacks) }
        guard nghttp2_option_new(&options) == 0, let options else { return false }
        defer { nghttp2_option_del(options) }
        setReadingCallbacks(callbacks)
        setEndCallbacks(callbacks)
        nghttp2_session_callbacks_set_send_data_callback(callbacks) { _, frame, head, count, _, own in
            withOwner(own) { $0.sendContent(of: frame!.pointee.hd.stream_id, head!, count) }
        }
        // Flow-control windows are returned explicitly, and closed streams are not kept.
        nghttp2_option_set_no_auto_window_update(options, 1)
        nghttp2_option_set_no_closed_streams(options, 1)
        nghttp2_option_set_max_send_header_block_length(options, sentSectionBytes)
        // Servers send values as their applications provide them. HTTP/1.1 clients do not see surrounding white space.
        if role == .client { nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(options, 1) }
        return body(callbacks, options) == 0
    }

    /// Maximum length of a sent field section, with 12 bytes for each line. Heads have other limits, which are lower. The default of the
    /// library, 64 KiB, is lower than these.
    private static let sentSectionBytes = 256 << 10

    private static func setReadingCallbacks(_ callbacks: OpaquePointer) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, _, own in
            withOwner(own) { $0.section.removeAll() }
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) { _, _, name, nameLength, value, valueLength, _, own in
            withOwner(own) {
                $0.take(UnsafeBufferPointer(start: name, count: nameLength), UnsafeBufferPointer(start: value, count: valueLength))
            }
        }
        // By default the library omits lines with invalid characters and continues.
        nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks) { _, _, _, _, _, _, _, _ in streamFailed }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, stream, bytes, count, own in
            withOwner(own) { session in
                guard !session.isEnded else { return failed }
                session.delegate?.receivedContent(UnsafeRawBufferPointer(start: bytes, count: count), on: stream)
                return session.isEnded ? failed : 0
            }
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, own in withOwner(own) { $0.received(frame!) } }
    }

    private static func setEndCallbacks(_ callbacks: OpaquePointer) {
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, code, own in
            withOwner(own) { session in
                guard !session.isEnded || session.isWriting else { return failed }
                session.delegate?.streamClosed(stream, HTTP2ErrorCode(rawValue: code))
                return 0
            }
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, own in withOwner(own) { $0.sent(frame!) } }
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks) { _, frame, error, own in
            withOwner(own) { $0.notSent(frame!, error) }
            return 0
        }
    }

    private var isWriting: Bool { buffer.baseAddress != nil }

    // MARK: Reading

    private func take(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Int32 {
        guard !isEnded else { return failed }
        guard section.take(name, value, limits) == .abuse else { return 0 }
        end(.enhanceYourCalm)
        return paused
    }

    private func received(_ frame: UnsafePointer<nghttp2_frame>) -> Int32 {
        guard !isEnded else { return failed }
        let head = frame.pointee.hd
        let stream = head.stream_id
        let endsStream = head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        switch nghttp2_frame_type(UInt32(head.type)) {
        case NGHTTP2_DATA:
            if endsStream { delegate?.receivedEnd(of: stream) }
        case NGHTTP2_HEADERS: receivedSection(frame.pointee.headers.cat, stream, endsStream)
        case NGHTTP2_SETTINGS:
            if head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0 { delegate?.receivedSettings() }
        case NGHTTP2_PING:
            if head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 { delegate?.receivedPingAcknowledgement() }
        case NGHTTP2_GOAWAY:
            delegate?.receivedGoAway(last: frame.pointee.goaway.last_stream_id, HTTP2ErrorCode(rawValue: frame.pointee.goaway.error_code))
        case NGHTTP2_RST_STREAM:
            delegate?.streamReset(stream, HTTP2ErrorCode(rawValue: frame.pointee.rst_stream.error_code), isByPeer: true)
        default: break
        }
        return isEnded ? failed : 0
    }

    private func receivedSection(_ category: nghttp2_headers_category, _ stream: Int32, _ endsStream: Bool) {
        guard let delegate else { return }
        // A 1xx response is followed by another head, which the library reports as trailers.
        let isHead = category != NGHTTP2_HCAT_HEADERS || section.hasStatus
        delegate.received(section, isHead ? .head : .trailers, on: stream, endsStream: endsStream)
        if !isHead, endsStream, !isEnded { delegate.receivedEnd(of: stream) }
    }

    // MARK: Writing

    private func sent(_ frame: UnsafePointer<nghttp2_frame>) -> Int32 {
        let head = frame.pointee.hd
        switch nghttp2_frame_type(UInt32(head.type)) {
        case NGHTTP2_DATA, NGHTTP2_HEADERS:
            if frame.pointee.isRequest { delegate?.sentRequest(on: head.stream_id) }
            if head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 { delegate?.sentEnd(of: head.stream_id) }
        case NGHTTP2_RST_STREAM:
            delegate?.streamReset(head.stream_id, HTTP2ErrorCode(rawValue: frame.pointee.rst_stream.error_code), isByPeer: false)
        case NGHTTP2_GOAWAY: delegate?.sentGoAway(HTTP2ErrorCode(rawValue: frame.pointee.goaway.error_code))
        default: break
        }
        return 0
    }

    /// Resets the stream of a response if the library cannot send its head because of the length. Without the reset, the client waits
    /// until a timeout. For a request, the library closes the stream itself.
    private func notSent(_ frame: UnsafePointer<nghttp2_frame>, _ error: Int32) {
        guard error == NGHTTP2_ERR_FRAME_SIZE_ERROR.rawValue, !frame.pointee.isRequest else { return }
        reset(frame.pointee.hd.stream_id, .internalError)
    }

    /// Content is written by its owner directly into the output buffer.
    static var contentSource: nghttp2_data_provider {
        nghttp2_data_provider(source: nghttp2_data_source()) { _, stream, _, limit, flags, _, own in
            withOwner(own) { $0.offerContent(of: stream, limit, flags!) }
        }
    }

    private func offerContent(of stream: Int32, _ limit: Int, _ flags: UnsafeMutablePointer<UInt32>) -> Int {
        let space = buffer.count - Self.frameHeadBytes
        guard space >= min(limit, Self.minimumContentSpace) else { return Int(paused) }
        switch delegate?.offerContent(of: stream, limit: min(limit, space)) ?? .broken {
        case .bytes(let count, let isLast, let hasTrailers):
            flags.pointee |= NGHTTP2_DATA_FLAG_NO_COPY.rawValue
            if isLast { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
            if hasTrailers { flags.pointee |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue }
            return count
        case .later: return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        case .broken: return Int(streamFailed)
        }
    }

    private func sendContent(of stream: Int32, _ head: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
        // The space was checked when the content was offered.
        guard buffer.count >= Self.frameHeadBytes + count else { return NGHTTP2_ERR_WOULDBLOCK.rawValue }
        put(UnsafeRawBufferPointer(start: head, count: Self.frameHeadBytes))
        guard count > 0 else { return 0 }
        delegate?.takeContent(of: stream, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]))
        buffer = UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
        return 0
    }
}

extension nghttp2_frame {
    fileprivate var isRequest: Bool { hd.type == UInt8(NGHTTP2_HEADERS.rawValue) && headers.cat == NGHTTP2_HCAT_REQUEST }
}

extension HTTP2FieldSection {
    fileprivate var hasStatus: Bool { first.map { bytes[$0.nameRange].elementsEqual(":status".utf8) } ?? false }
    private var first: Entry? { entries.first }
}
