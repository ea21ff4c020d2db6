// An origin that does what a play tells it, well or badly, over real sockets: each request is handed to a closure that says what is sent
// back, byte by byte if need be. One thread a connection, blocking: simple enough to be obviously right.

import CSystem
import Descriptors
import Dispatch
import Downstream
import Glibc
import Locking

/// A request as it reached the origin.
package struct OriginRequest: Sendable {
    package var line: String
    package var fields: [(name: String, value: String)]
    package var content: [UInt8]
    /// Which of the origin's connections brought it, counted from 1.
    package var connection = 0

    package var method: String { String(line.split(separator: " ").first ?? "") }
    package var target: String { String(line.split(separator: " ").dropFirst().first ?? "") }

    package subscript(_ name: String) -> String? { fields.first { $0.name.lowercased() == name.lowercased() }?.value }
}

/// Closed until it is opened, and open from then on.
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
    /// In one piece; with TLS each text has a record of its own.
    case records([String])
    /// With TLS: a ticket for a new session, new keys.
    case ticket, keyUpdate
    /// Ends the connection in good order; with TLS, after saying so.
    case close
    /// The same without a word of TLS's.
    case cut
    /// Ends it with a reset.
    case reset
    /// Sends back what comes until no more does.
    case echo
    /// Says nothing more until the origin goes down.
    case hang
    /// Waits until the play opens the gate.
    case pass(Gate)
    /// Opens the gate for the play.
    case open(Gate)
    /// Waits until bytes of the next request have arrived, and does not read them.
    case awaitInput
    /// Waits until the client's system has acknowledged all that was sent.
    case delivered
    /// Passes on what comes, both ways, from and to a port on loopback, until one side ends: what a forward proxy does after CONNECT.
    case tunnel(UInt16)
    /// In HTTP/2: a frame of the request's stream, and one of the connection: type, flags, payload.
    case frame(UInt8, UInt8, [UInt8])
    case connectionFrame(UInt8, UInt8, [UInt8])
    /// In HTTP/2: GOAWAY with this code.
    /// - Parameter accepts: whether this request, and all that have come, are still processed.
    case goAway(accepts: Bool, code: UInt32)

    /// A complete JSON response.
    package static func json(_ content: String, status: String = "200 OK", _ fields: [String] = []) -> OriginStep {
        answer(content, type: "application/json", status: status, fields)
    }

    /// In HTTP/2: the request's stream is reset with this code (RFC 9113 §7).
    package static func resetStream(_ code: UInt32) -> OriginStep { .frame(OriginFrame.reset, 0, OriginFrame.number(code)) }

    /// In HTTP/2: a field section, as it stands.
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
    /// Has the port, and never listens: while the origin is down nobody else is given its number.
    private let reservation: Descriptor

    private let tls: OriginTLS?
    private let greeting: [OriginStep]

    private struct State {
        var listener: Int32
        var connectionCount = 0
        var resumedCount = 0
        var connections: Set<Int32> = []
        var requests: [OriginRequest] = []
        /// Of so many of them it has been said what becomes of them.
        var scripted = 0
        var script: Script
        var expectation: Script?
        var http2 = OriginHTTP2Behaviour()
        /// What the next connections wait for, and whether they are cut then.
        var gates: [(gate: Gate, cuts: Bool)] = []
    }

    /// The play and the origin's connections share it.
    private let state: Mutex<State>
    /// Once for each request.
    private let arrived = DispatchSemaphore(value: 0)
    /// Once for each connection.
    private let connected = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - path: of a Unix socket to listen on instead of a port.
    ///   - other: whose port this has too, at 127.0.0.2.
    ///   - tls: what it speaks TLS with; nil for plain HTTP.
    ///   - greeting: what is done on each connection before anything is read.
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

    /// Waits until so many requests have come in all, and the script was asked for each; false where that takes half a minute.
    package func waitForRequests(_ count: Int) -> Bool {
        while state.withLock({ $0.scripted }) < count {
            if arrived.wait(timeout: .now() + 30) == .timedOut { return false }
        }
        return true
    }

    /// Connections so far, and how many of them resumed a session of TLS.
    package var connectionCount: Int { state.withLock { $0.connectionCount } }
    package var resumedCount: Int { state.withLock { $0.resumedCount } }

    package func react(_ script: @escaping Script) { state.withLock { $0.script = script } }

    /// What is done when the head of a request with `Expect` is there, before its content is read: once `close` is among it, no content is.
    package func reactToExpectation(_ script: @escaping Script) { state.withLock { $0.expectation = script } }

    /// Of connections that begin from now on, where a client speaks HTTP/2: it does so by its preface, or by what TLS has agreed.
    package func behave(_ change: (inout OriginHTTP2Behaviour) -> Void) { state.withLock { change(&$0.http2) } }

    /// The next connection is cut as soon as the gate is open, before anything is said on it.
    package func cutNext(after gate: Gate) { state.withLock { $0.gates.append((gate, true)) } }

    /// The next connection is served as soon as the gate is open.
    package func holdNext(until gate: Gate) { state.withLock { $0.gates.append((gate, false)) } }

    /// Waits until so many connections have come in all; false where that takes half a minute.
    package func waitForConnections(_ count: Int) -> Bool {
        while connectionCount < count { if connected.wait(timeout: .now() + 30) == .timedOut { return false } }
        return true
    }

    deinit { down() }

    /// Connecting is refused from now on, and what was connected is cut.
    package func down() {
        state.withLock { state in
            guard state.listener >= 0 else { return }
            // Who accepts on it closes it: else its number could be another's by the time of the next accept.
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

    /// Until nobody holds the origin any more, or it goes down.
    private func accept(on listener: Int32) {
        TestThread.start { [weak self] in
            while true {
                let connection = csystem_accept(listener, nil, nil)
                guard connection >= 0 else { break }
                guard let self else {
                    close(connection)
                    break
                }
                // It blocks, unlike those of the proxy.
                _ = fcntl(connection, F_SETFL, 0)
                let number = state.withLock { state in
                    state.connections.insert(connection)
                    state.connectionCount += 1
                    return state.connectionCount
                }
                connected.signal()
                // What is sent goes out at once: a reset would throw away what waits.
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

    /// A whole request has come.
    /// - Returns: what becomes of it.
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

    /// Returns whether the connection is kept.
    private func play(_ steps: [OriginStep], on stream: OriginStream) -> Bool {
        for step in steps where !perform(step, stream) { return false }
        return true
    }

    /// - Returns: false where the connection is over.
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

/// Reads requests with a length, with chunks, or without content.
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

    /// Returns false where the connection ended before.
    mutating func readContent(of request: inout OriginRequest) -> Bool {
        if request["Transfer-Encoding"]?.lowercased() == "chunked" {
            while let line = take(through: "\r\n"), let size = Int(line.prefix { $0.isHexDigit }, radix: 16), let piece = take(size + 2) {
                request.content += piece.dropLast(2)
                if size == 0 { return true }
            }
            return false
        }
        guard let content = take(Int(request["Content-Length"] ?? "0") ?? 0) else { return false }
        request.content = content
        return true
    }

    private mutating func take(through end: String) -> String? {
        let end = Array(end.utf8)
        // What is known not to have the end in it.
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
