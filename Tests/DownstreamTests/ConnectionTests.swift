// Tests of client connections with a simple receiver and no upstream: timeouts, back-pressure, draining.

import CSystem
import Dispatch
import Figures
import Glibc
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Downstream

/// Answers every request with its target, or as its path says. Used on its event loop only.
private final class Answering: RequestReceiver {
    /// Signalled for each request that waits or was answered too late.
    let waits = DispatchSemaphore(value: 0)

    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {}

    /// Sizes of complete requests, and of their responses.
    let wholes = Mutex([String]())

    /// Repeats the responses to these two requests only.
    func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool {
        for (target, count) in [("/again", 5), ("/long-again", 24 << 20)] where Array(copying: bytes) == Array(Self.request(target).utf8) {
            let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n".utf8) + [UInt8](repeating: 0x78, count: count)
            stream.sendAgain(answer.withUnsafeBytes { CompleteResponse($0) }, endingWith: nil)
            return true
        }
        return false
    }

    static func request(_ target: String) -> String { "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n" }

    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        guard let connection = stream as? ClientConnection else { return nil }
        let target = String(decoding: request.head.target, as: UTF8.self)
        switch target {
        case "/wait":
            waits.signal()
            return Waiting()
        case "/flood": return Flooding(connection)
        case "/gush": return Gushing(connection)
        case "/gone":
            answerClosed(connection)
            return nil
        case "/late", "/soon", "/last":
            if target == "/late" { connection.sendContinue() } else { waits.signal() }
            return Late(self, connection, target)
        default:
            answer(target, connection, request.bytes)
            return nil
        }
    }

    private func answer(_ target: String, _ connection: ClientConnection, _ bytes: UnsafeRawBufferPointer? = nil) {
        let body = target == "/whole" ? [UInt8](repeating: 120, count: 24 << 20) : Array(target.utf8)
        let lines = Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n".utf8)
        let sent = connection.sendWhole(head: lines.span, lines: Span(), body: .bytes(body))?.bytes.count ?? 0
        if let bytes { wholes.withLock { $0.append("\(bytes.count) \(sent)") } }
    }

    /// Responds after the whole request has arrived: at once, in the next round of the loop, or at the last moment.
    private final class Late: ClientExchange {
        private unowned let receiver: Answering
        private unowned let connection: ClientConnection
        private let target: String

        init(_ receiver: Answering, _ connection: ClientConnection, _ target: String) {
            (self.receiver, self.connection, self.target) = (receiver, connection, target)
        }

        func requestContent(_ bytes: Span<UInt8>) {}
        func requestEnded() {
            if target == "/late" { respondNow() }
            if target == "/soon" { connection.table.loop.inNextRound { self.respondNow() } }
        }
        func responseDrained() {}
        func clientLeft() {}

        func respondNow() {
            receiver.answer(target, connection)
            receiver.hasGoneAtOnce.withLock { $0 = connection.output.isEmpty }
        }
    }

    /// Whether bytes written outside of the request's handling were sent when the call returned.
    let hasGoneAtOnce = Mutex<Bool?>(nil)

    /// Writes some more after it was paused, like a stream with pieces in flight. Ends when it is resumed.
    private final class Gushing: ClientExchange {
        private unowned let connection: ClientConnection

        init(_ connection: ClientConnection) {
            self.connection = connection
            connection.startResponse(head: Array("HTTP/1.1 200 OK\r\n".utf8), framing: .chunked)
        }

        func requestContent(_ bytes: Span<UInt8>) {}
        func clientLeft() {}
        func responseDrained() { connection.endResponse() }

        func requestEnded() {
            let flood = [UInt8](repeating: 120, count: 8 << 20)
            // The client may have read everything in the meantime.
            if connection.write(flood.span) { return connection.endResponse() }
            let piece = [UInt8](repeating: 120, count: 16 << 10)
            while !connection.output.isEmpty {
                var one = pollfd(fd: connection.descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&one, 1, 10_000)
                _ = connection.write(piece.span)
            }
        }
    }

    /// Number of answers to a closed connection whose descriptor was reused, and bytes that the new owner received.
    let strays = Mutex((answers: 0, bytes: 0))

    private func answerClosed(_ connection: ClientConnection) {
        defer { waits.signal() }
        let number = connection.descriptor
        connection.closeNow()
        var pair: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0 else { return }
        // The pair usually has the reused descriptor. If another test has it, nothing is learned, and the test repeats.
        let copy = pair.contains(number) ? -1 : fcntl(pair[0], F_DUPFD, number)
        defer { for descriptor in pair + [copy] where descriptor >= 0 { close(descriptor) } }
        guard pair.contains(number) || copy == number else { return }
        let other = pair[1] == number ? pair[0] : pair[1]
        let lines = Array("HTTP/1.1 200 OK\r\nX: \(String(repeating: "x", count: 20_000))\r\n".utf8)
        for head in [lines, Array(lines.prefix(17))] {
            connection.sendWhole(head: head, body: .bytes([1]))
        }
        var byte: UInt8 = 0
        let count = recv(other, &byte, 1, Int32(MSG_DONTWAIT))
        strays.withLock { $0 = ($0.answers + 1, $0.bytes + max(0, count)) }
    }

    /// Never responds.
    private final class Waiting: ClientExchange {
        func requestContent(_ bytes: Span<UInt8>) {}
        func requestEnded() {}
        func responseDrained() {}
        func clientLeft() {}
    }

    /// Writes 50 MB, and only as fast as the client takes it.
    private final class Flooding: ClientExchange {
        private unowned let connection: ClientConnection
        private var left = 50
        private let piece = [UInt8](repeating: 120, count: 1 << 20)

        init(_ connection: ClientConnection) {
            self.connection = connection
            connection.startResponse(head: Array("HTTP/1.1 200 OK\r\n".utf8), framing: .length(50 << 20))
        }

        func requestContent(_ bytes: Span<UInt8>) {}
        func requestEnded() { responseDrained() }
        func clientLeft() {}

        func responseDrained() {
            let piece = self.piece
            while left > 0 {
                left -= 1
                if !connection.write(piece.span) { return }
            }
            connection.endResponse()
        }
    }
}

/// A listener with its own event loop. `@unchecked Sendable` because everything but the port and the clock is used on the loop only.
private final class Listening: @unchecked Sendable {
    let time = ManualTime()
    let port: UInt16
    private let loop: EventLoop
    private let table: ClientConnections
    private let listener: Listener
    private let receiver = Answering()

    init(_ change: (inout DownstreamSettings) -> Void = { _ in }) throws {
        var settings = DownstreamSettings()
        change(&settings)
        loop = EventLoop(label: "downstream.test", time: time)
        table = ClientConnections(loop: loop, settings: settings)
        let socket = try BoundSocket(.ipv4(host: "127.0.0.1", port: 0), backlog: 64)
        guard case .ipv4(_, let port) = socket.address else { preconditionFailure("no address of IPv4") }
        self.port = port
        listener = Listener(loop: loop, socket: socket, connections: table, receiver: receiver)
        loop.start()
        loop.execute { [self] in
            table.start()
            listener.start()
        }
    }

    func end() {
        let done = DispatchSemaphore(value: 0)
        loop.execute { [self] in
            listener.close()
            table.closeAll()
            loop.stop { done.signal() }
        }
        done.wait()
    }

    /// Number of connections ended by a timeout.
    var timedOut: Int {
        let result = Mutex(0)
        let done = DispatchSemaphore(value: 0)
        loop.execute { [self] in
            result.withLock { $0 = table.counters[.connectionsTimedOut] }
            done.signal()
        }
        done.wait()
        return result.withLock { $0 }
    }

    /// Number of connections closed for too many unsent bytes, and the current number of unsent bytes.
    var cut: Int { table.budget.cut }
    var unsentBytes: Int { table.budget.unsentBytes }

    /// Waits until the loop has done its pending work.
    func turn() {
        let done = DispatchSemaphore(value: 0)
        loop.execute { done.signal() }
        done.wait()
    }

    var wholes: [String] { receiver.wholes.withLock { $0 } }
    var hasGoneAtOnce: Bool? { receiver.hasGoneAtOnce.withLock { $0 } }

    func waitForRequest() { receiver.waits.wait() }

    /// Moves the clock after the loop's pending work. Returns when everything that became due is done.
    func pass(_ duration: Duration) {
        let begun = DispatchSemaphore(value: 0)
        loop.execute { begun.signal() }
        begun.wait()
        time.advance(by: duration)
        let done = DispatchSemaphore(value: 0)
        // Timers fire after the work of a round.
        loop.execute { [loop] in loop.execute { done.signal() } }
        done.wait()
    }

    var strays: (answers: Int, bytes: Int) { receiver.strays.withLock { $0 } }

    func drain(_ deadline: Duration, then: @escaping @Sendable () -> Void) {
        loop.execute { [self] in listener.finish(isKept: false) { self.table.drain(deadline: deadline, then: then) } }
    }

    /// New connections then wait in the kernel.
    func pauseAccepting() {
        loop.execute { [self] in listener.stop() }
        turn()
    }

    func moveClock(until client: TestClient) {
        while !client.hasInput(within: 10) { time.advance(by: .seconds(1)) }
    }
}

@Suite("Connections", .play)
struct ConnectionTests {
    @Test("idle connections are closed silently after the keep-alive timeout")
    func keepAlive() throws {
        let listening = try Listening { $0.keepAliveTimeout = .seconds(5) }
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        #expect(client.get("/a")?.text == "/a")
        listening.moveClock(until: client)
        #expect(client.readToEnd().isEmpty)
    }

    @Test("incomplete request content and an incomplete head are answered with 408 after the timeout")
    func slowContent() throws {
        let listening = try Listening()
        defer { listening.end() }
        for text in ["POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", "GET /a HTT"] {
            let client = try TestClient(port: listening.port)
            client.send(text)
            listening.moveClock(until: client)
            #expect(client.readResponse()?.status == 408)
            #expect(client.isClosedByServer())
        }
    }

    @Test("an invalid later request on a connection is answered like an invalid first one")
    func laterRefusals() throws {
        let listening = try Listening()
        defer { listening.end() }
        for (text, status) in [("GET /b HTTP/1.1\r\n\r\n", 400), ("(\r\n\r\n", 400), ("GET /b HTT", 408)] {
            for first in ["GET", "HEAD"] {
                let client = try TestClient(port: listening.port)
                #expect(client.request(first, "/a")?.status == 200)
                client.send(text)
                if status == 408 { listening.moveClock(until: client) }
                let refusal = client.readResponse()
                #expect(refusal?.status == status)
                #expect(refusal?.content.isEmpty == false)
                #expect(client.isClosedByServer())
            }
        }
    }

    @Test("a response to a connection that is already closed is discarded")
    func answeredTooLate() throws {
        let listening = try Listening()
        defer { listening.end() }
        while listening.strays.answers == 0 {
            let client = try TestClient(port: listening.port)
            client.send(Answering.request("/gone"))
            #expect(client.readToEnd().isEmpty)
            listening.waitForRequest()
        }
        #expect(listening.strays.bytes == 0)
    }

    @Test("a response completed on the loop is sent with its batch, before the connection closes", arguments: ["/soon", "/last"])
    func gathered(target: String) throws {
        let listening = try Listening()
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        client.send(Answering.request(target))
        listening.waitForRequest()
        if target == "/last" {
            listening.drain(.seconds(1)) {}
            listening.turn()
            listening.time.advance(by: .seconds(2))
        }
        #expect(client.readResponse()?.text == target)
        #expect(listening.hasGoneAtOnce == false)
    }

    @Test("a connection closes after its maximum number of requests")
    func requestsPerConnection() throws {
        let listening = try Listening { $0.requestsPerConnection = 2 }
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        #expect(client.get("/a")?["Connection"] == nil)
        #expect(client.get("/b")?["Connection"] == "close")
        #expect(client.isClosedByServer())
    }

    @Test("a repeated response counts as a request of its connection, and is sent completely to a slow client")
    func again() throws {
        let listening = try Listening {
            $0.requestsPerConnection = 3
            $0.keepAliveTimeout = .seconds(5)
        }
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        for target in ["/again", "/long-again"] {
            client.send(Answering.request(target))
            #expect(client.hasInput(within: 10_000))
            // Longer than the timeout for the next request.
            if target == "/long-again" { listening.pass(.seconds(9)) }
            let answer = client.readResponse()
            #expect(answer?.status == 200 && answer?.isComplete == true && answer?.content.first == UInt8(ascii: "x"))
        }
        // The third response ends the connection, so it cannot be a repetition of the second.
        client.send(Answering.request("/again"))
        let last = client.readResponse()
        #expect(last?.text == "/again" && last?["Connection"] == "close")
        #expect(client.isClosedByServer())
    }

    @Test("only complete requests without content that keep the connection open are offered for repetition")
    func wholeExchanges() throws {
        let listening = try Listening()
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        let request = Answering.request("/a")
        for text in [request, "GET /a HTTP/1.0\r\nHost: a\r\n\r\n"] {
            client.send(text)
            #expect(client.readResponse()?.text == "/a")
        }
        let withContent = try TestClient(port: listening.port)
        withContent.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n")
        #expect(withContent.readResponse()?.text == "/a")
        let pipelining = try TestClient(port: listening.port)
        pipelining.send(request + Answering.request("/bc"))
        #expect(pipelining.readResponse()?.text == "/a" && pipelining.readResponse()?.text == "/bc")
        #expect(pipelining.get("/whole")?.isComplete == true)
        let late = try TestClient(port: listening.port)
        late.send("POST /late HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        #expect(late.hasInput(within: 10_000))
        #expect(pipelining.get("/whole")?.isComplete == true)
        late.send("x")
        #expect(late.readResponse()?.text == "/late")
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n/a".utf8.count
        #expect(listening.wholes == ["28 \(answer)", "28 0", "43 0", "43 0"])
    }

    @Test("a timeout never fires early, wherever between two sweeps it started")
    func notEarly() throws {
        let listening = try Listening { $0.keepAliveTimeout = .seconds(5) }
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        #expect(client.get("/a")?.status == 200)
        listening.pass(.milliseconds(400))
        #expect(client.get("/a")?.status == 200)
        listening.pass(.milliseconds(4_900))
        #expect(client.get("/b")?.status == 200)
        listening.pass(.milliseconds(6_000))
        #expect(client.isClosedByServer())
    }

    @Test("a client that reads slowly receives everything, and one that reads nothing is disconnected")
    func backPressure() throws {
        let listening = try Listening()
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        #expect(client.get("/flood")?.content.count == 50 << 20)
        let stuck = try TestClient(port: listening.port)
        stuck.send(Answering.request("/flood"))
        #expect(stuck.hasInput(within: 10_000))
        while listening.timedOut == 0 { listening.time.advance(by: .seconds(1)) }
        #expect(stuck.readResponse()?.isComplete == false)
    }

    @Test("unsent bytes of slow clients are limited: a response beyond the limit is cut off, and other clients are served")
    func unsentLimit() throws {
        let listening = try Listening { $0.unsentLimitBytes = 128 << 20 }
        defer { listening.end() }
        let clients = try (0..<3).map { _ in try TestClient(port: listening.port) }
        // Each response exceeds the kernel's buffers. Two together take less than half of the limit, which one address may hold.
        for client in clients {
            client.send(Answering.request("/whole"))
            #expect(client.hasInput(within: 10_000))
        }
        while listening.cut == 0 { listening.turn() }
        let answers = clients.map { $0.readResponse()?.isComplete }
        #expect(answers.filter { $0 == true }.count == 2)
        #expect(listening.cut == 1)
        while listening.unsentBytes > 0 { listening.turn() }
        #expect(clients.contains { $0.get("/a")?.status == 200 })
    }

    @Test("a paused producer is resumed even if its last bytes were sent at once")
    func gushing() throws {
        let listening = try Listening()
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        let answer = client.get("/gush")
        #expect(answer?.isComplete == true && answer?.content.count ?? 0 >= 8 << 20)
    }

    @Test("connections waiting to be accepted when the listener closes are served, and so are started requests")
    func lastAccepted() throws {
        let listening = try Listening()
        defer { listening.end() }
        let begun = try TestClient(port: listening.port)
        begun.send("GET /begun HTTP/1.1\r\n")
        listening.pauseAccepting()
        let waiting = try TestClient(port: listening.port)
        waiting.send(Answering.request("/waits"))
        let drained = DispatchSemaphore(value: 0)
        listening.drain(.seconds(60)) { drained.signal() }
        for (client, target, rest) in [(waiting, "/waits", ""), (begun, "/begun", "Host: a\r\n\r\n")] {
            client.send(rest)
            let response = client.readResponse()
            #expect(response?.text == target && response?["Connection"] == "close")
            #expect(client.isClosedByServer())
        }
        // The clients do not close their sides. The server closes these connections after the linger timeout.
        listening.pass(.seconds(3))
        #expect(drained.wait(timeout: .now() + .seconds(20)) == .success)
        #expect(throws: (any Error).self) { try TestClient(port: listening.port) }
    }

    @Test("draining lets kept connections send one more request, closes idle ones, and terminates all at the deadline")
    func draining() throws {
        let listening = try Listening()
        defer { listening.end() }
        let (idle, kept) = (try TestClient(port: listening.port), try TestClient(port: listening.port))
        for client in [idle, kept] { #expect(client.get("/a")?["Connection"] == nil) }
        let waiting = try TestClient(port: listening.port)
        waiting.send(Answering.request("/wait") + "GET /pipelined HTTP/1.1\r\n")
        listening.waitForRequest()
        let drained = DispatchSemaphore(value: 0)
        listening.drain(.seconds(60)) { drained.signal() }
        listening.turn()
        let last = kept.get("/b")
        #expect(last?.text == "/b" && last?["Connection"] == "close")
        #expect(kept.isClosedByServer())
        listening.pass(.seconds(2))
        #expect(idle.isClosedByServer())
        #expect(drained.wait(timeout: .now()) == .timedOut)
        listening.time.advance(by: .seconds(60))
        #expect(drained.wait(timeout: .now() + .seconds(20)) == .success)
        #expect(waiting.isClosedByServer())
    }
}
