// An origin whose responses a play defines byte by byte, valid or not, over real sockets. A closure returns the steps for each request.
// Blocking, with one thread per connection, to keep it simple.

import CSystem
import Dispatch
import Downstream
import Glibc
import Reactor

/// A request as it reached the origin.
package struct OriginRequest: Sendable {
    package var line: String
    package var fields: [(name: String, value: String)]
    package var content: [UInt8]
    /// Number of chunks with content; 0 without chunked coding.
    package var chunks = 0
    /// Number of the origin's connection that carried the request, from 1.
    package var connection = 0
    /// HTTP/2: names of the fields that must never be indexed (RFC 7541 §6.2.3).
    package var neverIndexed: [String] = []

    package var method: String { String(line.split(separator: " ").first ?? "") }
    package var target: String { String(line.split(separator: " ").dropFirst().first ?? "") }

    package subscript(_ name: String) -> String? { fields.first { $0.name.lowercased() == name.lowercased() }?.value }
}

/// Blocks threads in `pass` until it is opened. It stays open.
package final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    package init() {}

    package func open() { semaphore.signal() }

    package func pass() {
        semaphore.wait()
        semaphore.signal()
    }
}

package enum OriginStep: Sendable {
    case send(String)
    case sendBytes([UInt8])
    /// Sent together; with TLS, each text is one record.
    case records([String])
    /// TLS: a session ticket, and new keys.
    case ticket, keyUpdate
    /// Closes the connection, with close_notify in case of TLS.
    case close
    /// Closes the connection without close_notify.
    case cut
    /// Resets the connection.
    case reset
    /// Sends received bytes back until the client ends.
    case echo
    /// Sends nothing more until the origin goes down.
    case hang
    /// Waits until the play opens the gate.
    case pass(Gate)
    /// Opens the gate for the play.
    case open(Gate)
    /// Waits until bytes of the next request have arrived, without reading them.
    case awaitInput
    /// Waits until the client's system has acknowledged all bytes.
    case delivered
    /// Forwards bytes in both directions to a loopback port until one side ends, as a forward proxy after CONNECT.
    case tunnel(UInt16)
    /// HTTP/2: a frame of the request's stream, or of the connection: type, flags, payload.
    case frame(UInt8, UInt8, [UInt8])
    case connectionFrame(UInt8, UInt8, [UInt8])
    /// HTTP/2: GOAWAY with this code.
    /// - Parameter accepts: whether this request and all earlier ones are still processed.
    case goAway(accepts: Bool, code: UInt32)

    /// A complete JSON response.
    package static func json(_ content: String, status: String = "200 OK", _ fields: [String] = []) -> OriginStep {
        answer(content, type: "application/json", status: status, fields)
    }

    /// HTTP/2: resets the request's stream with this code (RFC 9113 §7).
    package static func resetStream(_ code: UInt32) -> OriginStep { .frame(OriginFrame.reset, 0, OriginFrame.number(code)) }

    /// HTTP/2: a field section with exactly these lines.
    package static func fields(_ lines: [(String, String)], isLast: Bool = false) -> OriginStep {
        .frame(OriginFrame.headers, OriginFrame.endHeaders | (isLast ? OriginFrame.endStream : 0), OriginFrame.fieldLines(lines))
    }

    package static func answer(_ content: String, type: String, status: String = "200 OK", _ fields: [String] = []) -> OriginStep {
        let lines = ["HTTP/1.1 \(status)", "Content-Type: \(type)", "Content-Length: \(content.utf8.count)"] + fields
        return .send(lines.joined(separator: "\r\n") + "\r\n\r\n" + content)
    }
}

package final class ScriptedOrigin: Sendable {
    package typealias Script = @Sendable (OriginRequest) -> [OriginStep]

    package let port: UInt16
    private let address: ListenAddress
    /// Reserves the port without listening, so that no other process gets it while the origin is down.
    private let reservation: Descriptor

    private let tls: OriginTLS?
    private let greeting: [OriginStep]

    private struct State {
        var listener: Int32
        var connectionCount = 0
        var resumedCount = 0
        var connections: Set<Int32> = []
        var requests: [OriginRequest] = []
        /// Number of requests for which the script has been called.
        var scripted = 0
        var script: Script
        var expectation: Script?
        var http2 = OriginHTTP2Behaviour()
        /// Gates of the next connections, and whether they are closed after the gate.
        var gates: [(gate: Gate, cuts: Bool)] = []
    }

    /// Shared by the play and the origin's connections.
    private let state: Mutex<State>
    /// Signalled once per request.
    private let arrived = DispatchSemaphore(value: 0)
    /// Signalled once per connection.
    private let connected = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - path: a Unix socket to listen on instead of a port.
    ///   - other: another origin; this one uses its port number, at 127.0.0.2.
    ///   - tls: TLS context; nil for plain HTTP.
    ///   - greeting: steps on each connection before anything is read.
    package init(
        unixSocket path: String? = nil, beside other: ScriptedOrigin? = nil, tls: OriginTLS? = nil, greeting: [OriginStep] = [],
        _ script: @escaping Script
    ) {
        self.tls = tls
        self.greeting = greeting
        reservation = Descriptor(path == nil && other == nil ? Self.bound(.ipv4(host: "127.0.0.1", port: 0)) : -1)
        port = reservation.isOpen ? Self.port(of: reservation.number) : other?.port ?? 0
        address = path.map { .unix(path: $0) } ?? .ipv4(host: other == nil ? "127.0.0.1" : "127.0.0.2", port: port)
        let listener = Self.listen(address)
        state = Mutex(State(listener: listener, script: script))
        accept(on: listener)
    }

    /// All requests so far.
    package var requests: [OriginRequest] { state.withLock { $0.requests } }

    /// Waits until this many requests have been received and given to the script; false after 30 seconds.
    package func waitForRequests(_ count: Int) -> Bool {
        while state.withLock({ $0.scripted }) < count {
            if arrived.wait(timeout: .now() + 30) == .timedOut { return false }
        }
        return true
    }

    /// Number of connections so far, and of those that resumed a TLS session.
    package var connectionCount: Int { state.withLock { $0.connectionCount } }
    package var resumedCount: Int { state.withLock { $0.resumedCount } }

    package func react(_ script: @escaping Script) { state.withLock { $0.script = script } }

    /// Sets the steps after the head of a request with `Expect`. If they contain `close`, its content is not read.
    package func reactToExpectation(_ script: @escaping Script) { state.withLock { $0.expectation = script } }

    /// Changes the behaviour of later HTTP/2 connections, which are recognized by their preface or by ALPN.
    package func behave(_ change: (inout OriginHTTP2Behaviour) -> Void) { state.withLock { change(&$0.http2) } }

    /// The next connection is closed when the gate opens, without a response.
    package func cutNext(after gate: Gate) { state.withLock { $0.gates.append((gate, true)) } }

    /// The next connection is served when the gate opens.
    package func holdNext(until gate: Gate) { state.withLock { $0.gates.append((gate, false)) } }

    /// Waits for this number of connections; false after 30 seconds.
    package func waitForConnections(_ count: Int) -> Bool {
        while connectionCount < count { if connected.wait(timeout: .now() + 30) == .timedOut { return false } }
        return true
    }

    deinit { down() }

    /// Refuses new connections and closes existing ones.
    package func down() {
        state.withLock { state in
            guard state.listener >= 0 else { return }
            // The accepting thread closes it. Otherwise the number might be reused before its next accept.
            shutdown(state.listener, Int32(SHUT_RDWR))
            state.listener = -1
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    package func up() {
        let listener = Self.listen(address)
        state.withLock { $0.listener = listener }
        accept(on: listener)
    }

    private static func listen(_ address: ListenAddress) -> Int32 {
        let listener = bound(address)
        precondition(Glibc.listen(listener, 64) == 0, "the origin cannot listen")
        return listener
    }

    private static func bound(_ address: ListenAddress) -> Int32 {
        let descriptor = socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var one: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        precondition(address.withSocketAddress { bind(descriptor, $0, $1) == 0 }, "the origin cannot have its address")
        return descriptor
    }

    private static func port(of descriptor: Int32) -> UInt16 {
        var actual = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &actual) { pointer in
            _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return UInt16(bigEndian: actual.sin_port)
    }

    /// Accepts until the origin is released or goes down.
    private func accept(on listener: Int32) {
        TestThread.start { [weak self] in
            while true {
                let connection = csystem_accept(listener, nil, nil)
                guard connection >= 0 else { break }
                guard let self else {
                    close(connection)
                    break
                }
                // Blocking, unlike the sockets of the proxy.
                _ = fcntl(connection, F_SETFL, 0)
                let number = state.withLock { state in
                    state.connections.insert(connection)
                    state.connectionCount += 1
                    return state.connectionCount
                }
                connected.signal()
                // Sent without delay, because a reset discards buffered bytes.
                var one: Int32 = 1
                setsockopt(connection, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
                TestThread.start {
                    self.serve(connection, number)
                    self.state.withLock { _ = $0.connections.remove(connection) }
                    close(connection)
                }
            }
            close(listener)
        }
    }

    private func serve(_ connection: Int32, _ number: Int) {
        if let (gate, cuts) = state.withLock({ $0.gates.isEmpty ? nil : $0.gates.removeFirst() }) {
            gate.pass()
            if cuts { return }
        }
        guard let tls else { return serve(OriginStream(connection), number) }
        guard let stream = tls.accept(connection) else { return }
        if stream.isResumed { state.withLock { $0.resumedCount += 1 } }
        serve(stream, number)
    }

    private func serve(_ stream: OriginStream, _ number: Int) {
        guard play(greeting, on: stream) else { return }
        var reader = RequestReader(stream: stream)
        if reader.beginsHTTP2() { return serveHTTP2(stream, number, reader.buffer) }
        while var request = reader.head() {
            request.connection = number
            if request["Expect"] != nil, let script = state.withLock({ $0.expectation }), !play(script(request), on: stream) { return }
            guard reader.readContent(of: &request) else { return }
            guard play(take(request), on: stream) else { return }
        }
    }

    /// Records a complete request.
    /// - Returns: steps of its response.
    private func take(_ request: OriginRequest) -> [OriginStep] {
        let script = state.withLock { state in
            state.requests.append(request)
            return state.script
        }
        let steps = script(request)
        state.withLock { $0.scripted += 1 }
        arrived.signal()
        return steps
    }

    private func serveHTTP2(_ stream: OriginStream, _ number: Int, _ read: [UInt8]) {
        let hooks = OriginHTTP2.Hooks(
            expectation: { [state] in state.withLock { $0.expectation } },
            request: { [unowned self] in
                var request = $0
                request.connection = number
                return take(request)
            })
        OriginHTTP2(stream, state.withLock { $0.http2 }, hooks).serve(read)
    }

    /// - Returns: whether the connection is kept.
    private func play(_ steps: [OriginStep], on stream: OriginStream) -> Bool {
        for step in steps where !perform(step, stream) { return false }
        return true
    }

    /// - Returns: false after the end of the connection.
    private func perform(_ step: OriginStep, _ stream: OriginStream) -> Bool {
        switch step {
        case .send(let text): stream.send([Array(text.utf8)])
        case .sendBytes(let bytes): stream.send([bytes])
        case .records(let texts): stream.send(texts.map { Array($0.utf8) })
        case .ticket: stream.sendTicket()
        case .keyUpdate: stream.sendKeyUpdate()
        case .close:
            stream.sendCloseNotify()
            return false
        case .cut: return false
        case .reset:
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(stream.descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
            return false
        case .pass(let gate): gate.pass()
        case .open(let gate): gate.open()
        case .awaitInput: stream.awaitInput()
        case .delivered: stream.awaitDelivery()
        case .frame, .connectionFrame, .goAway: preconditionFailure("HTTP/1.1 has no frames")
        case .tunnel(let port):
            Self.splice(stream.descriptor, with: port)
            return false
        case .echo:
            while true {
                let bytes = stream.receive()
                guard !bytes.isEmpty else { return false }
                stream.send([bytes])
            }
        case .hang:
            while !stream.receive().isEmpty {}
            return false
        }
        return true
    }

    private static func splice(_ connection: Int32, with port: UInt16) {
        guard let other = try? TestClient(port: port) else { return }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            var waiting = [connection, other.descriptor].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&waiting, 2, 20_000) > 0 else { return }
            for (from, to) in [(0, 1), (1, 0)] where waiting[from].revents != 0 {
                let count = recv(waiting[from].fd, &buffer, buffer.count, 0)
                guard count > 0 else { return }
                OriginStream(waiting[to].fd).send([Array(buffer[..<count])])
            }
        }
    }
}

/// Reads requests with Content-Length, with chunked coding, or without content.
private struct RequestReader {
    let stream: OriginStream
    var buffer: [UInt8] = []

    init(stream: OriginStream) { self.stream = stream }

    /// Whether the first bytes are the preface of HTTP/2 (RFC 9113 §3.4).
    mutating func beginsHTTP2() -> Bool {
        while buffer.count < OriginHTTP2.preface.count, OriginHTTP2.preface.starts(with: buffer) {
            guard fill() else { return false }
        }
        return buffer.starts(with: OriginHTTP2.preface)
    }

    mutating func head() -> OriginRequest? {
        guard let head = take(through: "\r\n\r\n") else { return nil }
        var lines = head.split(separator: "\r\n").map(String.init)
        guard !lines.isEmpty else { return nil }
        var request = OriginRequest(line: lines.removeFirst(), fields: [], content: [])
        request.fields = lines.compactMap { line in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " }))
        }
        return request
    }

    /// - Returns: false if the connection ended before.
    mutating func readContent(of request: inout OriginRequest) -> Bool {
        if request["Transfer-Encoding"]?.lowercased() == "chunked" {
            while let line = take(through: "\r\n"), let size = Int(line.prefix { $0.isHexDigit }, radix: 16), let piece = take(size + 2) {
                request.content += piece.dropLast(2)
                if size == 0 { return true }
                request.chunks += 1
            }
            return false
        }
        guard let content = take(Int(request["Content-Length"] ?? "0") ?? 0) else { return false }
        request.content = content
        return true
    }

    private mutating func take(through end: String) -> String? {
        let end = Array(end.utf8)
        // Length of the prefix that cannot contain the end.
        var searched = 0
        while true {
            while let newline = buffer.withUnsafeBytes({ Self.newline(in: $0, from: searched) }) {
                searched = newline + 1
                guard buffer[..<searched].suffix(end.count).elementsEqual(end) else { continue }
                defer { buffer.removeSubrange(..<searched) }
                return String(decoding: buffer[..<searched], as: UTF8.self)
            }
            searched = buffer.count
            guard fill() else { return nil }
        }
    }

    private static func newline(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard start < bytes.count, let base = bytes.baseAddress else { return nil }
        return memchr(base + start, 0x0a, bytes.count - start).map { UnsafeRawPointer($0) - base }
    }

    private mutating func take(_ count: Int) -> [UInt8]? {
        while buffer.count < count { guard fill() else { return nil } }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    private mutating func fill() -> Bool {
        let piece = stream.receive()
        buffer += piece
        return !piece.isEmpty
    }
}
