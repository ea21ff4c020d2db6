// Connections with a receiver of the tests' own: time-outs, back-pressure, draining, without an upstream anywhere.

import Dispatch
import Glibc
import HTTPCore
import Locking
import Reactor
import TestSupport
import Testing

@testable import Downstream

/// Answers every request with its target, or as its path says. On its loop only.
private final class Answering: RequestReceiver {
    /// Signalled for each request that will wait.
    let waits = DispatchSemaphore(value: 0)

    func refused(_ refusal: RequestRejection.Kind, on connection: ClientConnection) {}

    func received(_ head: RequestHead, framing: ContentFraming, on connection: ClientConnection) -> (any ClientExchange)? {
        let target = String(decoding: head.target, as: UTF8.self)
        switch target {
        case "/wait":
            waits.signal()
            return Waiting()
        case "/flood": return Flooding(connection)
        case "/gush": return Gushing(connection)
        case "/gone":
            answerClosed(connection)
            return nil
        default:
            let body = target == "/whole" ? [UInt8](repeating: 120, count: 24 << 20) : Array(target.utf8)
            let lines = Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n".utf8)
            lines.withUnsafeBytes {
                connection.sendWhole(head: $0, lines: UnsafeRawBufferPointer(start: nil, count: 0), body: .bytes(body))
            }
            return nil
        }
    }

    /// Goes on for a while after it was told to stop, as a flow does whose pieces are under way; ends when it is told to go on.
    private final class Gushing: ClientExchange {
        private unowned let connection: ClientConnection

        init(_ connection: ClientConnection) {
            self.connection = connection
            connection.startResponse(ResponseHead(status: 200), framing: .chunked)
        }

        func requestContent(_ bytes: Span<UInt8>) {}
        func clientLeft() {}
        func responseDrained() { connection.endResponse() }

        func requestEnded() {
            let flood = [UInt8](repeating: 120, count: 8 << 20)
            // The client may have read all of it meanwhile.
            if connection.write(flood.span) { return connection.endResponse() }
            let piece = [UInt8](repeating: 120, count: 16 << 10)
            while !connection.output.isEmpty {
                usleep(1_000)
                _ = connection.write(piece.span)
            }
        }
    }

    /// Counts what reached those to whom a closed connection's number belongs now.
    let strays = Mutex(0)

    private func answerClosed(_ connection: ClientConnection) {
        let number = connection.descriptor
        connection.closeNow()
        var pair: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0 else { return }
        // Mostly one of the pair has the number now. Another play may have it: then nothing is learned, and the test asks again.
        let copy = pair.contains(number) ? -1 : fcntl(pair[0], F_DUPFD, number)
        defer { for descriptor in pair + [copy] where descriptor >= 0 { close(descriptor) } }
        guard pair.contains(number) || copy == number else { return }
        let other = pair[1] == number ? pair[0] : pair[1]
        let lines = Array("HTTP/1.1 200 OK\r\nX: \(String(repeating: "x", count: 20_000))\r\n".utf8)
        for head in [lines, Array(lines.prefix(17))] {
            head.withUnsafeBytes {
                connection.sendWhole(head: $0, lines: UnsafeRawBufferPointer(start: nil, count: 0), body: .bytes([1]))
            }
        }
        var byte: UInt8 = 0
        let count = recv(other, &byte, 1, Int32(MSG_DONTWAIT))
        strays.withLock { $0 += max(0, count) + 1 }
    }

    /// Never answers.
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
            connection.startResponse(ResponseHead(status: 200), framing: .length(50 << 20))
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

/// A listener on a loop of its own. `@unchecked Sendable` because everything but the port and the clock is used on the loop only.
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

    /// Connections ended by a time-out so far.
    var timedOut: Int {
        let result = Mutex(0)
        let done = DispatchSemaphore(value: 0)
        loop.execute { [self] in
            let count = table.counters.timedOut
            result.withLock { $0 = count }
            done.signal()
        }
        done.wait()
        return result.withLock { $0 }
    }

    /// Connections ended because too much waited to be sent, and what waits now.
    var cut: Int { table.budget.cut }
    var unsentBytes: Int { table.budget.unsentBytes }

    func waitForRequest() { receiver.waits.wait() }

    /// Moves the clock, and returns when all that was due has been done.
    func pass(_ duration: Duration) {
        time.advance(by: duration)
        let done = DispatchSemaphore(value: 0)
        // Timers fire after the work of a round.
        loop.execute { [loop] in loop.execute { done.signal() } }
        done.wait()
    }

    /// How often a closed connection was answered, and how many bytes others got of it.
    var strays: Int { receiver.strays.withLock { $0 } }

    func drain(_ deadline: Duration, then: @escaping @Sendable () -> Void) {
        loop.execute { [self] in table.drain(deadline: deadline, then: then) }
    }

    func moveClock(until client: TestClient) {
        while !client.hasInput(within: 10) { time.advance(by: .seconds(1)) }
    }
}

@Suite("Connections")
struct ConnectionTests {
    @Test("idle connections are closed after their time, silently")
    func keepAlive() throws {
        let listening = try Listening { $0.keepAliveTimeout = .seconds(5) }
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        #expect(client.get("/a")?.text == "/a")
        listening.moveClock(until: client)
        #expect(client.readToEnd().isEmpty)
    }

    @Test("content that stops coming is answered with 408, and so is a head")
    func slowContent() throws {
        let listening = try Listening()
        defer { listening.end() }
        for text in ["POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", "GET /a HTT"] {
            let client = try TestClient(port: listening.port)
            client.send(text)
            listening.moveClock(until: client)
            #expect(client.readAnswer()?.status == 408)
            #expect(client.isClosedByServer())
        }
    }

    @Test("what is wrong with a later request on a connection is answered as with the first")
    func laterRefusals() throws {
        let listening = try Listening()
        defer { listening.end() }
        for (text, status) in [("GET /b HTTP/1.1\r\n\r\n", 400), ("(\r\n\r\n", 400), ("GET /b HTT", 408)] {
            for first in ["GET", "HEAD"] {
                let client = try TestClient(port: listening.port)
                #expect(client.request(first, "/a")?.status == 200)
                client.send(text)
                if status == 408 { listening.moveClock(until: client) }
                let refusal = client.readAnswer()
                #expect(refusal?.status == status)
                #expect(refusal?.content.isEmpty == false)
                #expect(client.isClosedByServer())
            }
        }
    }

    @Test("an answer for a connection that is closed already goes nowhere")
    func answeredTooLate() throws {
        let listening = try Listening()
        defer { listening.end() }
        while listening.strays == 0 {
            let client = try TestClient(port: listening.port)
            client.send("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(client.readToEnd().isEmpty)
            usleep(1_000)
        }
        #expect(listening.strays == 1)
    }

    @Test("so many requests a connection, and no more")
    func requestsPerConnection() throws {
        let listening = try Listening { $0.requestsPerConnection = 2 }
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        #expect(client.get("/a")?["Connection"] == nil)
        #expect(client.get("/b")?["Connection"] == "close")
        #expect(client.isClosedByServer())
    }

    @Test("a time-out never comes before its time, wherever between two sweeps it started")
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

    @Test("a client that reads slowly gets all of it; one that reads nothing is let go")
    func backPressure() throws {
        let listening = try Listening()
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        #expect(client.get("/flood")?.content.count == 50 << 20)
        let stuck = try TestClient(port: listening.port)
        stuck.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(stuck.hasInput(within: 10_000))
        while listening.timedOut == 0 { listening.time.advance(by: .seconds(1)) }
        #expect(stuck.readAnswer()?.isComplete == false)
    }

    @Test("what slow clients leave untaken has a limit: whose answer goes beyond is cut off, the others are served")
    func unsentLimit() throws {
        let listening = try Listening { $0.unsentLimitBytes = 64 << 20 }
        defer { listening.end() }
        let clients = try (0..<3).map { _ in try TestClient(port: listening.port) }
        // Each takes more than the kernel's buffers hold, and less than the limit.
        for client in clients {
            client.send("GET /whole HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(client.hasInput(within: 10_000))
        }
        while listening.cut == 0 { usleep(1_000) }
        let answers = clients.map { $0.readAnswer()?.isComplete }
        #expect(answers.filter { $0 == true }.count == 2)
        #expect(listening.cut == 1)
        while listening.unsentBytes > 0 { usleep(1_000) }
        #expect(clients.contains { $0.get("/a")?.status == 200 })
    }

    @Test("a flow that was told to stop is told to go on, although its last pieces went out at once")
    func gushing() throws {
        let listening = try Listening()
        defer { listening.end() }
        let client = try TestClient(port: listening.port)
        let answer = client.get("/gush")
        #expect(answer?.isComplete == true && answer?.content.count ?? 0 >= 8 << 20)
    }

    @Test("draining closes idle connections, lets others finish, and ends them at the deadline")
    func draining() throws {
        let listening = try Listening()
        defer { listening.end() }
        let idle = try TestClient(port: listening.port)
        #expect(idle.get("/a")?.status == 200)
        let waiting = try TestClient(port: listening.port)
        waiting.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGET /pipelined HTTP/1.1\r\n")
        listening.waitForRequest()
        let drained = DispatchSemaphore(value: 0)
        listening.drain(.seconds(5)) { drained.signal() }
        #expect(idle.isClosedByServer())
        #expect(drained.wait(timeout: .now() + .milliseconds(50)) == .timedOut)
        listening.time.advance(by: .seconds(6))
        #expect(drained.wait(timeout: .now() + .seconds(20)) == .success)
        #expect(waiting.isClosedByServer())
    }
}
