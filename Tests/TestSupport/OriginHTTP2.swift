// The origin's side of an HTTP/2 connection. It uses scripts for HTTP/1.1: their responses are converted to fields and data. Frames are
// assembled by hand, so that they can be malformed, and so that the origin shares no code with the client.

import Dispatch
import Glibc
import Reactor

/// Frames of RFC 9113 §6, for plays that send arbitrary frames.
package enum OriginFrame {
    package static let data: UInt8 = 0
    package static let headers: UInt8 = 1
    package static let reset: UInt8 = 3
    package static let settings: UInt8 = 4
    package static let ping: UInt8 = 6
    package static let goAway: UInt8 = 7
    package static let windowUpdate: UInt8 = 8
    package static let continuation: UInt8 = 9

    package static let endStream: UInt8 = 1
    package static let acknowledges: UInt8 = 1
    package static let endHeaders: UInt8 = 4

    static func bytes(_ type: UInt8, _ flags: UInt8, stream: Int32, _ payload: [UInt8]) -> [UInt8] {
        let count = payload.count
        return [UInt8(count >> 16 & 0xff), UInt8(count >> 8 & 0xff), UInt8(count & 0xff), type, flags] + number(UInt32(stream)) + payload
    }

    package static func number(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(value >> (24 - 8 * UInt32($0)) & 0xff) } }

    /// Field lines as literals without indexing and Huffman coding (RFC 7541 §6.2.2).
    package static func fieldLines(_ lines: [(String, String)]) -> [UInt8] {
        lines.reduce(into: []) { block, line in block += [0] + text(line.0) + text(line.1) }
    }

    private static func text(_ text: String) -> [UInt8] {
        var length = text.utf8.count
        guard length >= 127 else { return [UInt8(length)] + Array(text.utf8) }
        var prefix: [UInt8] = [127]
        length -= 127
        while length >= 128 {
            prefix.append(UInt8(length & 127 | 128))
            length >>= 7
        }
        return prefix + [UInt8(length)] + Array(text.utf8)
    }
}

/// Behaviour of the origin apart from its script.
package struct OriginHTTP2Behaviour: Sendable {
    /// Identifiers and values of its SETTINGS frame.
    package var settings: [(UInt16, UInt32)] = []
    /// Whether received content is acknowledged by WINDOW_UPDATE.
    package var opensWindows = true
    /// Maximum bytes that a WINDOW_UPDATE acknowledges.
    package var acknowledgedBytes = 1 << 20
    /// Whether it acknowledges PING.
    package var acknowledgesPings = true

    package init() {}
}

/// `@unchecked Sendable` because state shared by threads is behind `state` or `wire`.
final class OriginHTTP2: @unchecked Sendable {
    struct Hooks {
        let expectation: @Sendable () -> ScriptedOrigin.Script?
        /// Handles a complete request, and returns the steps of its response.
        let request: @Sendable (OriginRequest) -> [OriginStep]
    }

    private struct State {
        var streamWindow: Int = 65_535
        var window = 65_535
        var frameBytes = 16_384
        var streams: [Int32: Stream] = [:]
        var last: Int32 = 0
        var isClosed = false
    }

    /// A request as far as received, and the send window of its response.
    private struct Stream {
        var request: OriginRequest
        var window: Int
        /// Signalled when a window has grown, or at the end of the connection.
        let moved = DispatchSemaphore(value: 0)
        var isGone = false
    }

    private let stream: OriginStream
    private let behaviour: OriginHTTP2Behaviour
    private let hooks: Hooks
    private let state = Mutex(State())
    /// Held while the socket is read or written, because one TLS object serves both. False after the end of the connection, when the
    /// descriptor may be reused.
    private let wire = Mutex(true)
    private let reader = HeaderBlockReader()
    private var buffer: [UInt8] = []

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    init(_ stream: OriginStream, _ behaviour: OriginHTTP2Behaviour, _ hooks: Hooks) {
        (self.stream, self.behaviour, self.hooks) = (stream, behaviour, hooks)
    }

    /// - Parameter read: bytes that have been read: the preface, and possibly more.
    func serve(_ read: [UInt8]) {
        buffer = read
        let settings = behaviour.settings.reduce(into: []) { $0 += [UInt8($1.0 >> 8), UInt8($1.0 & 0xff)] + OriginFrame.number($1.1) }
        send(OriginFrame.settings, 0, 0, settings)
        _ = take(Self.preface.count)
        while let head = take(9) {
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            let id = Int32(head[5] & 127) << 24 | Int32(head[6]) << 16 | Int32(head[7]) << 8 | Int32(head[8])
            guard let payload = take(length), handle(type: head[3], flags: head[4], id, payload) else { break }
        }
        wire.withLock { $0 = false }
        state.withLock { state in
            state.isClosed = true
            for stream in state.streams.values { stream.moved.signal() }
        }
    }

    private func take(_ count: Int) -> [UInt8]? {
        while buffer.count < count {
            let piece = receive()
            guard !piece.isEmpty else { return nil }
            buffer += piece
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    private func receive() -> [UInt8] {
        var waiting = pollfd(fd: stream.descriptor, events: Int16(POLLIN), revents: 0)
        while poll(&waiting, 1, -1) < 0, errno == EINTR {}
        return wire.withLock { _ in stream.receive() }
    }

    /// - Parameter use: not called after the end of the connection.
    private func withStream(_ use: (OriginStream) -> Void) {
        wire.withLock { isThere in if isThere { use(stream) } }
    }

    private func send(_ type: UInt8, _ flags: UInt8, _ id: Int32, _ payload: [UInt8]) {
        withStream { $0.send([OriginFrame.bytes(type, flags, stream: id, payload)]) }
    }

    // MARK: Receiving

    private func handle(type: UInt8, flags: UInt8, _ id: Int32, _ payload: [UInt8]) -> Bool {
        switch type {
        case OriginFrame.headers:
            // The tested client sends no priorities, no padding, and no CONTINUATION.
            guard flags & OriginFrame.endHeaders != 0, let request = request(payload) else { return false }
            begin(request, id, isWhole: flags & OriginFrame.endStream != 0)
        case OriginFrame.data: take(content: payload, id, isWhole: flags & OriginFrame.endStream != 0)
        case OriginFrame.settings where flags & OriginFrame.acknowledges == 0:
            take(settings: payload)
            send(OriginFrame.settings, OriginFrame.acknowledges, 0, [])
        case OriginFrame.ping where flags & OriginFrame.acknowledges == 0 && behaviour.acknowledgesPings:
            send(OriginFrame.ping, OriginFrame.acknowledges, 0, payload)
        case OriginFrame.windowUpdate: widen(id, by: Self.number(payload))
        case OriginFrame.reset: end(id)
        default: break
        }
        return true
    }

    private static func number(_ bytes: [UInt8]) -> Int { bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) } }

    private func request(_ block: [UInt8]) -> OriginRequest? {
        guard let lines = reader.read(block) else { return nil }
        let pseudo = { (name: String) in lines.first { $0.name == name }?.value ?? "" }
        let host = [(name: "host", value: pseudo(":authority"))]
        let fields = lines.filter { !$0.name.hasPrefix(":") }.map { (name: $0.name, value: $0.value) }
        var request = OriginRequest(line: "\(pseudo(":method")) \(pseudo(":path")) HTTP/2", fields: host + fields, content: [])
        request.neverIndexed = lines.filter(\.isNeverIndexed).map(\.name)
        return request
    }

    private func begin(_ request: OriginRequest, _ id: Int32, isWhole: Bool) {
        state.withLock { state in
            state.streams[id] = Stream(request: request, window: state.streamWindow)
            state.last = id
        }
        if request["Expect"] != nil, let script = hooks.expectation() {
            TestThread.start { self.play(script(request), for: request, id) }
        }
        if isWhole { respond(id) }
    }

    private func take(content: [UInt8], _ id: Int32, isWhole: Bool) {
        state.withLock { $0.streams[id]?.request.content += content }
        if behaviour.opensWindows, !content.isEmpty {
            let levels: [Int32] = isWhole ? [0] : [0, id]
            var updates: [UInt8] = []
            for start in stride(from: 0, to: content.count, by: behaviour.acknowledgedBytes) {
                let count = OriginFrame.number(UInt32(min(behaviour.acknowledgedBytes, content.count - start)))
                for level in levels { updates += OriginFrame.bytes(OriginFrame.windowUpdate, 0, stream: level, count) }
            }
            withStream { [updates] in $0.send([updates]) }
        }
        if isWhole { respond(id) }
    }

    private func respond(_ id: Int32) {
        guard let request = state.withLock({ $0.streams[id]?.request }) else { return }
        let steps = hooks.request(request)
        TestThread.start { self.play(steps, for: request, id) }
    }

    private func play(_ steps: [OriginStep], for request: OriginRequest, _ id: Int32) {
        let response = OriginHTTP2Response(self, id, request)
        for step in steps where !perform(step, response) { return }
    }

    private func take(settings: [UInt8]) {
        for start in stride(from: 0, to: settings.count - 5, by: 6) {
            let (name, value) = (Int(settings[start]) << 8 | Int(settings[start + 1]), Self.number(Array(settings[(start + 2)...])))
            state.withLock { state in
                if name == 5 { state.frameBytes = value }
                guard name == 4 else { return }
                for id in state.streams.keys {
                    state.streams[id]?.window += value - state.streamWindow
                    state.streams[id]?.moved.signal()
                }
                state.streamWindow = value
            }
        }
    }

    private func widen(_ id: Int32, by count: Int) {
        state.withLock { state in
            if id == 0 { state.window += count } else { state.streams[id]?.window += count }
            for stream in state.streams.values { stream.moved.signal() }
        }
    }

    private func end(_ id: Int32) {
        state.withLock { state in
            state.streams[id]?.isGone = true
            state.streams[id]?.moved.signal()
        }
    }

    // MARK: Sending

    func sendFields(_ lines: [(String, String)], _ id: Int32, isLast: Bool) {
        let flags = OriginFrame.endHeaders | (isLast ? OriginFrame.endStream : 0)
        send(OriginFrame.headers, flags, id, OriginFrame.fieldLines(lines))
    }

    /// Blocks while the client's windows are full; returns at the end of the connection.
    func sendData(_ bytes: ArraySlice<UInt8>, _ id: Int32, isLast: Bool) {
        var rest = bytes
        repeat {
            guard let (count, moved) = room(for: rest.count, id) else { return }
            if count > 0 || rest.isEmpty {
                let isEnd = count == rest.count && isLast
                send(OriginFrame.data, isEnd ? OriginFrame.endStream : 0, id, Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            } else {
                moved.wait()
            }
        } while !rest.isEmpty
    }

    private func room(for count: Int, _ id: Int32) -> (Int, DispatchSemaphore)? {
        state.withLock { state in
            guard !state.isClosed, let stream = state.streams[id], !stream.isGone else { return nil }
            let taken = max(0, min(count, stream.window, state.window, state.frameBytes))
            state.window -= taken
            state.streams[id]?.window -= taken
            return (taken, stream.moved)
        }
    }

    /// - Returns: false after the end of the connection.
    private func perform(_ step: OriginStep, _ response: OriginHTTP2Response) -> Bool {
        switch step {
        case .send(let text): response.send(Array(text.utf8))
        case .sendBytes(let bytes): response.send(bytes)
        case .records(let texts): for text in texts { response.send(Array(text.utf8)) }
        case .ticket: withStream { $0.sendTicket() }
        case .keyUpdate: withStream { $0.sendKeyUpdate() }
        case .frame(let type, let flags, let payload): send(type, flags, response.id, payload)
        case .connectionFrame(let type, let flags, let payload): send(type, flags, 0, payload)
        case .goAway(let accepts, let code):
            let last = state.withLock { $0.last }
            send(OriginFrame.goAway, 0, 0, OriginFrame.number(UInt32(accepts ? last : max(0, response.id - 2))) + OriginFrame.number(code))
        case .pass(let gate): gate.pass()
        case .open(let gate): gate.open()
        case .awaitInput, .delivered: preconditionFailure("plays of HTTP/1.1 wait for the bytes of a connection")
        case .close, .cut, .reset:
            breakOff(step)
            return false
        case .hang, .tunnel, .echo: return false
        }
        return true
    }

    /// Shuts the connection down. The reading thread closes it after the client has.
    private func breakOff(_ step: OriginStep) {
        withStream { stream in
            if case .close = step { stream.sendCloseNotify() }
            guard case .reset = step else {
                shutdown(stream.descriptor, Int32(SHUT_WR))
                return
            }
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(stream.descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
            // Sends nothing. The close will send the reset.
            shutdown(stream.descriptor, Int32(SHUT_RD))
        }
    }
}

/// Converts a script's HTTP/1.1 response into frames of a stream.
final class OriginHTTP2Response {
    let id: Int32
    private let connection: OriginHTTP2
    private let isToHEAD: Bool
    private var buffer: [UInt8] = []
    private var rest = Rest.head

    private enum Rest {
        case head
        case length(Int)
        case chunks
        /// The content has no length, so the stream stays open.
        case open
        case nothing
    }

    init(_ connection: OriginHTTP2, _ id: Int32, _ request: OriginRequest) {
        (self.connection, self.id, isToHEAD) = (connection, id, request.method == "HEAD")
    }

    func send(_ bytes: [UInt8]) {
        buffer += bytes
        while resume() {}
    }

    /// - Returns: whether to call it again.
    private func resume() -> Bool {
        switch rest {
        case .head: return sendHead()
        case .length(let left):
            guard !buffer.isEmpty else { return false }
            let count = min(left, buffer.count)
            connection.sendData(buffer[..<count], id, isLast: count == left)
            buffer.removeFirst(count)
            rest = count == left ? .nothing : .length(left - count)
            return false
        case .chunks: return sendChunk()
        case .open:
            if !buffer.isEmpty { connection.sendData(buffer[...], id, isLast: false) }
            buffer = []
            return false
        case .nothing: return false
        }
    }

    private func sendHead() -> Bool {
        guard let end = buffer.firstRange(of: Array("\r\n\r\n".utf8)) else { return false }
        let lines = String(decoding: buffer[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n").map(String.init)
        buffer.removeFirst(end.upperBound)
        let status = String(lines.first?.split(separator: " ").dropFirst().first ?? "")
        var fields = [(":status", status)]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields.append((line[..<colon].lowercased(), String(line[line.index(after: colon)...].drop { $0 == " " })))
        }
        let isInformational = status.hasPrefix("1")
        let length = fields.first { $0.0 == "content-length" }.flatMap { Int($0.1) }
        let isChunked = fields.contains { $0.0 == "transfer-encoding" }
        fields.removeAll { ["connection", "keep-alive", "transfer-encoding"].contains($0.0) }
        let isWithoutContent = isToHEAD || ["204", "304"].contains(status) || length == 0
        connection.sendFields(fields, id, isLast: !isInformational && isWithoutContent)
        if isInformational { return true }
        rest = isWithoutContent ? .nothing : length.map { .length($0) } ?? (isChunked ? .chunks : .open)
        return true
    }

    private func sendChunk() -> Bool {
        guard let newline = buffer.firstIndex(of: 0x0a),
            let size = Int(String(decoding: buffer[..<newline].prefix { $0 != 0x0d && $0 != 0x3b }, as: UTF8.self), radix: 16)
        else { return false }
        guard size > 0 else {
            connection.sendData([], id, isLast: true)
            (buffer, rest) = ([], .nothing)
            return false
        }
        guard buffer.count >= newline + 1 + size + 2 else { return false }
        connection.sendData(buffer[newline + 1..<newline + 1 + size], id, isLast: false)
        buffer.removeFirst(newline + 1 + size + 2)
        return true
    }
}
