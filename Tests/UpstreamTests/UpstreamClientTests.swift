// Tests of the upstream client without a proxy: phases and their timeouts, the queue for connections, writing and cancelling.

import Dispatch
import Figures
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("Requests to the upstream", .play)
struct UpstreamClientTests {
    private func asking(_ origin: ScriptedOrigin, _ way: Way = .clear, _ change: (inout UpstreamSettings) -> Void = { _ in }) -> Asking {
        Asking(origin, way, change)
    }

    @Test("1xx and final responses arrive, and the connection is reused", arguments: Way.allCases)
    func answers(way: Way) {
        let origin = way.origin { _ in [.send("HTTP/1.1 103 Early Hints\r\n\r\n"), .json("[1]")] }
        let asking = asking(origin, way)
        defer { asking.end() }
        for _ in 0..<3 {
            let recorder = asking.ask("GET", "/a")
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.informational == [103])
            #expect(recorder.now.status == 200)
            #expect(recorder.now.content.elementsEqual("[1]".utf8))
        }
        #expect(asking.counters[.upstreamConnections] == 1)
        #expect(asking.counters[.upstreamActive] == 0)
    }

    @Test("chunked content is decoded, and content ended only by the close of the connection counts as not delimited", arguments: Way.http1)
    func framings(way: Way) {
        let origin = way.origin { request in
            request.target == "/chunked"
                ? [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=\"1\"\r\n[1\r\n001\r\n]\r\n0\r\nT: x\r\n\r\n")]
                : [.send("HTTP/1.1 200 OK\r\n\r\n[1]"), .close]
        }
        let asking = asking(origin, way)
        defer { asking.end() }
        for (target, isDelimited) in [("/chunked", true), ("/open", false)] {
            let recorder = asking.ask("GET", target)
            #expect(recorder.end() == .success(isDelimited))
            #expect(recorder.now.content.elementsEqual("[1]".utf8))
        }
        // In TLS, an end without close_notify may be an attacker's.
        origin.react { _ in [.send("HTTP/1.1 200 OK\r\n\r\n[1]"), .cut] }
        #expect(asking.ask("GET", "/cut").end() == (way.isTLS ? .failure(.responseIncomplete) : .success(false)))
    }

    @Test("a response is parsed correctly when it arrives one byte at a time", arguments: Way.allCases)
    func pieces(way: Way) {
        let head = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nX: \(String(repeating: "x", count: 300))\r\n"
        let origin = way.origin { request in
            let isChunked = request.target == "/chunked"
            let text =
                head + (isChunked ? "Transfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n" : "Content-Length: 3\r\n\r\n[1]")
            return text.utf8.map { .sendBytes([$0]) }
        }
        let asking = asking(origin, way)
        defer { asking.end() }
        for target in ["/length", "/chunked", "/length"] {
            let recorder = asking.ask("GET", target)
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.informational == [103])
            #expect(recorder.now.content.elementsEqual("[1]".utf8))
        }
        #expect(asking.counters[.upstreamConnections] == 1)
    }

    @Test("a closed kept connection is replaced: a safe request is retried, a write is not", arguments: Way.allCases)
    func deadConnection(way: Way) {
        let count = Counter()
        let origin = way.origin { _ in
            let number = count.next()
            return number % 2 == 1 ? [.json("1")] : [.close]
        }
        let asking = asking(origin, way)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        // The second request's connection ends without a response, so it is repeated on a new connection.
        #expect(asking.ask("GET", "/b").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 2)
        #expect(asking.ask("POST", "/c").end() == .failure(.connectionTerminated))
        #expect(origin.requests.map(\.target) == ["/a", "/b", "/b", "/c"])
    }

    @Test("a request that failed on a closed kept connection is not retried on another kept one, even if it must wait")
    func deadConnectionAndQueue() {
        let gate = Gate()
        let count = Counter()
        let origin = ScriptedOrigin { request in
            guard request.target == "/b" else { return [.pass(gate), .json("1")] }
            return [count.next() == 1 ? .close : .json("2")]
        }
        let asking = asking(origin) { $0.maximumConnections = 1 }
        defer { asking.end() }
        let first = asking.ask("GET", "/a")
        #expect(origin.waitForRequests(1))
        let waiting = ["/b", "/c"].map { asking.ask("GET", $0) }
        gate.open()
        for recorder in [first] + waiting { #expect(recorder.end() == .success(true)) }
        #expect(origin.requests.map(\.target) == ["/a", "/b", "/c", "/b"])
        #expect(asking.counters[.upstreamConnections] == 3)
    }

    @Test(
        "an upstream that closes every connection unannounced loses no response, however many requests wait", .slow,
        arguments: Way.allCases)
    func unannouncedEnds(way: Way) {
        // Responses without content. Over HTTP/2, the end could otherwise fall between head and content, which would lose the response.
        let origin = way.origin { [.send("HTTP/1.1 200 OK\r\nTarget: \($0.target)\r\nContent-Length: 0\r\n\r\n"), .close] }
        let asking = asking(origin, way) {
            $0.maximumConnections = 1
            $0.queueLimit = 500
        }
        defer { asking.end() }
        let targets = (0..<500).map { "/\($0)" }
        let recorders = targets.map { asking.ask("GET", $0) }
        for (target, recorder) in zip(targets, recorders) {
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.fields.contains { $0.lowercased() == "target: \(target)" })
        }
    }

    @Test("each phase has its timeout and its error", arguments: Way.allCases)
    func timeouts(way: Way) {
        let origin = way.origin { request in
            switch request.target {
            case "/head": [.hang]
            case "/early": [.send("HTTP/1.1 103 Early Hints\r\n\r\n"), .hang]
            default: [.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n["), .hang]
            }
        }
        let change = { (settings: inout UpstreamSettings) in
            settings.connectTimeout = .seconds(3)
            settings.firstByteTimeout = .seconds(7)
            settings.betweenBytesTimeout = .seconds(11)
        }
        let asking = asking(origin, way, change)
        defer { asking.end() }
        for (target, seconds) in [("/head", 7), ("/early", 7), ("/content", 11)] {
            let recorder = asking.ask("GET", target)
            while origin.requests.last?.target != target {}
            while target == "/early", recorder.now.informational.isEmpty {}
            while target == "/content", recorder.now.status == nil {}
            let (end, after) = asking.wait(for: recorder)
            #expect(end == .failure(.connectionReadTimeout), "\(target)")
            #expect((seconds * 1000...seconds * 1000 + 2_000).contains(after), "\(target): \(after)")
        }
        // A server that accepts the connection and does not respond to the ClientHello.
        let silent = self.asking(ScriptedOrigin { _ in [.hang] }) {
            change(&$0)
            $0.isTLS = true
        }
        defer { silent.end() }
        #expect(silent.wait(for: silent.ask("GET", "/a")).0 == .failure(.connectionTimeout))
    }

    /// An origin that answers `/slow` when the gate is open, and all else at once.
    private func held(_ gate: Gate, _ way: Way) -> ScriptedOrigin {
        way.origin { request in request.target == "/slow" ? [.pass(gate), .json("1")] : [.json("2")] }
    }

    @Test(
        "a request that gets no connection in time fails without blame on the upstream, and the others are served",
        arguments: Way.allCases)
    func connectionLimit(way: Way) {
        let gate = Gate()
        let origin = held(gate, way)
        let asking = asking(origin, way) {
            $0.maximumConnections = 1
            $0.queueLimit = 2
        }
        defer { asking.end() }
        let slow = asking.ask("GET", "/slow")
        #expect(origin.waitForRequests(1))
        let impatient = asking.ask("GET", "/a")
        #expect(asking.wait(for: impatient).0 == .failure(.connectionLimitReached))
        let patient = [asking.ask("GET", "/b"), asking.ask("GET", "/c")]
        // Requests beyond the queue's limit are refused at once.
        let refused = Mutex(false)
        _ = asking.ask("GET", "/d") { transfer in refused.withLock { $0 = transfer == nil } }
        #expect(refused.withLock { $0 })
        gate.open()
        #expect(slow.end() == .success(true))
        for recorder in patient { #expect(recorder.end() == .success(true)) }
        #expect(asking.counters[.upstreamConnections] == 1)
        #expect(asking.counters[.upstreamRejected] == 1)
    }

    @Test("surplus bytes after a response are not taken as the response to a waiting request", arguments: Way.http1)
    func surplus(way: Way) {
        // One read returns exactly the response, without the surplus after it.
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 48000\r\nX: "
        let filler = String(repeating: "x", count: 48 * 1024 - 48_000 - head.utf8.count - 4)
        let answer = head + filler + "\r\n\r\n" + String(repeating: "1", count: 48_000)
        let gate = Gate()
        let origin = way.origin { request in
            request.target == "/first"
                ? [.pass(gate), .send(answer + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n9")] : [.json("2")]
        }
        let asking = asking(origin, way) { $0.maximumConnections = 1 }
        defer { asking.end() }
        let first = asking.ask("GET", "/first")
        #expect(origin.waitForRequests(1))
        let waiting = ["GET", "POST"].map { asking.ask($0, "/waiting") }
        gate.open()
        _ = first.end()
        for recorder in waiting {
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content.elementsEqual("2".utf8))
        }
        #expect(asking.counters[.upstreamConnections] == 2)
    }

    @Test("a receiver can start another request while it handles a response's head or content", arguments: Way.allCases)
    func requestFromReceiver(way: Way) {
        let origin = way.origin { [.send("HTTP/1.1 103 Early Hints\r\n\r\n"), .json("\"\($0.target)\"")] }
        let asking = asking(origin, way)
        defer { asking.end() }
        let inner = (0..<3).map { _ in Recorder() }
        let outer = asking.ask(
            "GET", "/outer",
            recorder: Recorder { transfer, event in
                _ = transfer.client.start(Asking.request("GET", "/inner"), receiver: inner[event])
            })
        #expect(outer.end() == .success(true))
        for recorder in inner {
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content.elementsEqual("\"/inner\"".utf8))
        }
    }

    @Test("waiting requests get connections in order of arrival", arguments: Way.allCases)
    func order(way: Way) {
        let gate = Gate()
        let origin = held(gate, way)
        let asking = asking(origin, way) { $0.maximumConnections = 1 }
        defer { asking.end() }
        let slow = asking.ask("GET", "/slow")
        #expect(origin.waitForRequests(1))
        let targets = (0..<50).map { "/\($0)" }
        let waiting = targets.map { asking.ask("GET", $0) }
        gate.open()
        for recorder in [slow] + waiting { #expect(recorder.end() == .success(true)) }
        #expect(origin.requests.map(\.target) == ["/slow"] + targets)
    }

    @Test("requests that were cancelled or served leave nothing in the queue", arguments: Way.allCases)
    func givenUp(way: Way) {
        let gate = Gate()
        let origin = held(gate, way)
        let asking = asking(origin, way) {
            $0.maximumConnections = 1
            $0.queueLimit = 4
        }
        defer { asking.end() }
        let slow = asking.ask("GET", "/slow")
        #expect(origin.waitForRequests(1))
        let seen = Seen()
        for _ in 0..<200 { _ = asking.ask("GET", "/a") { $0.map { seen.add($0) }?.cancel() } }
        #expect(asking.alive(seen) <= 20)
        let patient = (0..<3).map { _ in asking.ask("GET", "/b") { $0.map { _ = seen.add($0) } } }
        gate.open()
        #expect(slow.end() == .success(true))
        for recorder in patient { #expect(recorder.end() == .success(true)) }
        #expect(asking.alive(seen) == 0)
    }

    @Test("content can be written in pieces, and a cancelled transfer sends no more events", arguments: Way.allCases)
    func contents(way: Way) {
        let origin = way.origin { request in
            request.target == "/hang" ? [.hang] : [.json("\"\(String(decoding: request.content, as: UTF8.self))\"")]
        }
        let asking = asking(origin, way)
        defer { asking.end() }
        for framing in [ContentFraming.length(6), .chunked] {
            let recorder = asking.ask("POST", "/a", content: framing) { transfer in
                for piece in ["abc", "def"] { _ = transfer?.write(Array(piece.utf8).span) }
                transfer?.endContent()
            }
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content.elementsEqual("\"abcdef\"".utf8))
        }
        let cancelled = asking.ask("GET", "/hang") { $0?.cancel() }
        #expect(cancelled.end(within: 100) == nil)
        #expect(asking.counters[.upstreamActive] == 0)
    }

    @Test(
        "an incomplete response is distinguished from a connection closed without a response", arguments: [OriginStep.close, .reset],
        Way.allCases)
    func incompleteResponse(end: OriginStep, way: Way) {
        let origin = way.origin { request in
            request.target == "/none" ? [end] : [.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1"), end]
        }
        let asking = asking(origin, way)
        defer { asking.end() }
        #expect(asking.ask("GET", "/none").end() == .failure(.connectionTerminated))
        #expect(asking.ask("GET", "/cut").end() == .failure(.responseIncomplete))
    }

    @Test("each kind of unreachable upstream has its own error", arguments: Way.allCases)
    func unreachable(way: Way) {
        let origin = way.origin { _ in [] }
        let refused = asking(origin, way)
        defer { refused.end() }
        origin.down()
        #expect(refused.ask("GET", "/a").end() == .failure(.connectionRefused))
        let unknown = asking(origin, way) { $0.host = "nowhere.invalid" }
        defer { unknown.end() }
        #expect(unknown.ask("GET", "/a").end() == .failure(.dnsError))
    }

    @Test("a connection made in the background serves the next request, and its failure is reported to all waiting callers")
    func attempts() {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let asking = asking(origin)
        defer { asking.end() }
        #expect(asking.attemptConnection() == nil)
        #expect(asking.attempts == [nil])
        #expect(asking.ask("GET", "/a").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 1)
        origin.down()
        #expect(asking.attemptConnection() == .connectionRefused)
        #expect(asking.ask("POST", "/a").end() == .failure(.connectionRefused))
        #expect(asking.attempts == [nil, .connectionRefused, .connectionRefused])
        #expect(UpstreamError.connectionRefused.isFailureToReach && !UpstreamError.connectionTerminated.isFailureToReach)
    }

    @Test("requests of one share hold at most its connections, and other requests are not blocked")
    func shares() {
        let gate = Gate()
        let origin = held(gate, .clear)
        let asking = asking(origin) { $0.maximumConnections = 4 }
        defer { asking.end() }
        let share = ConnectionShare(.streamedContent, .connections(2))
        let slow = (0..<4).map { _ in asking.ask("GET", "/slow", shares: [share]) }
        #expect(origin.waitForRequests(2))
        for _ in 0..<10 { #expect(asking.ask("GET", "/quick").end() == .success(true)) }
        #expect(origin.requests.count { $0.target == "/slow" } == 2)
        gate.open()
        for recorder in slow { #expect(recorder.end() == .success(true)) }
        #expect(asking.counters[.upstreamConnections] <= 3)
    }

    @Test("a request cancelled while it connects leaves the connection to the next request")
    func givenUpWhileConnecting() {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let asking = asking(origin) { $0.maximumConnections = 1 }
        defer { asking.end() }
        _ = asking.ask("GET", "/never") { $0?.cancel() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        #expect(origin.requests.map(\.target) == ["/a"])
        #expect(asking.counters[.upstreamConnections] == 1)
    }
}
