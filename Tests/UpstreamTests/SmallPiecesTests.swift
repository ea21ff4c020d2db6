// Tests of content in very small pieces: pieces that arrive together cause one send, or one event of the receiver.

import Figures
import HTTPCore
import TestSupport
import Testing

@testable import Upstream

/// `@unchecked Sendable` because it is used on one loop only.
private final class HeldTransfer: @unchecked Sendable {
    private(set) var transfer: Transfer?

    func hold(_ transfer: Transfer?) { self.transfer = transfer }
}

@Suite("Content in small pieces", .play)
struct SmallPiecesTests {
    @Test("small pieces of a request are sent together", arguments: Way.http1)
    func request(way: Way) {
        let origin = way.origin { [.json("[\($0.content.count),\($0.chunks)]")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        let held = HeldTransfer()
        let recorder = asking.ask("POST", "/a", content: .chunked) { held.hold($0) }
        for _ in 0..<100_000 where asking.onLoop({ _ in (held.transfer?.times.sent ?? -1) < 0 }) {}
        asking.onLoop { _ in
            let piece: [UInt8] = [0x78]
            for _ in 0..<5_000 { _ = held.transfer?.write(piece.span) }
            held.transfer?.endContent()
            held.hold(nil)
        }
        #expect(recorder.end() == .success(true))
        #expect(recorder.now.content.elementsEqual("[5000,1]".utf8))
    }

    @Test("small chunks of a response are passed on together", arguments: Way.http1)
    func response(way: Way) {
        let chunks = String(repeating: "1\r\nx\r\n", count: 5_000)
        let origin = way.origin { _ in [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        let pieces = Counter()
        let recorder = asking.ask("GET", "/a", recorder: Recorder { _, event in if event == 2 { _ = pieces.next() } })
        #expect(recorder.end() == .success(true))
        #expect(recorder.now.content == [UInt8](repeating: 0x78, count: 5_000))
        #expect(pieces.next() < 500)
    }

    @Test("a response in random chunks arrives complete and in order", arguments: Way.http1)
    func randomChunks(way: Way) {
        let origin = way.origin { _ in [.json("1")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        for seed in 0..<10 {
            var random = SeededGenerator(seed: UInt64(seed))
            var content: [UInt8] = []
            var steps = [OriginStep.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")]
            for _ in 0..<200 {
                let isLong = random.isTrue(oneIn: 10)
                let piece = [UInt8](repeating: UInt8(random.below(256)), count: 1 + random.below(isLong ? 5_000 : 20))
                content += piece
                steps += [.send("\(String(piece.count, radix: 16))\r\n"), .sendBytes(piece), .send("\r\n")]
            }
            let script = steps + [.send("0\r\n\r\n")]
            origin.react { _ in script }
            let recorder = asking.ask("GET", "/a")
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content == content, "seed \(seed)")
        }
    }

    @Test("chunks before an invalid one are passed on before the response fails", arguments: Way.http1)
    func invalid(way: Way) {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        let origin = way.origin { _ in [.send(head + "1\r\nx\r\n1\r\ny\r\nz\r\n")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        let recorder = asking.ask("GET", "/a")
        #expect(recorder.end() == .failure(.protocolError))
        #expect(recorder.now.content.elementsEqual("xy".utf8))
    }

    @Test("a transfer that is cancelled by its first chunks gets no further event", arguments: Way.http1)
    func cancelled(way: Way) {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        let origin = way.origin { _ in [.send(head + "1\r\nx\r\n1\r\ny\r\n0\r\n\r\n")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        let recorder = asking.ask("GET", "/a", recorder: Recorder { transfer, event in if event == 2 { transfer.cancel() } })
        #expect(recorder.end(within: 200) == nil)
        #expect(asking.counters[.upstreamActive] == 0)
    }
}
