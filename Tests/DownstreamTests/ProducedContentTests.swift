// Content that is made while it is sent: a piece a turn, whatever the client takes at once.

import CSystem
import Glibc
import Testing

@testable import Downstream

@Suite("Content that is made while it is sent")
struct ProducedContentTests {
    private final class Pieces: ContentProducer {
        var left: Int
        init(_ count: Int) { left = count }
        var heldBytes: Int { 1_000 }
        func next() -> [UInt8]? {
            guard left > 0 else { return nil }
            left -= 1
            return [UInt8](repeating: 0x61, count: 5)
        }
    }

    @Test("each call makes one piece, although the kernel would take all of them at once")
    func pieces() {
        var ends: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        defer { for end in ends { close(end) } }
        let pieces = Pieces(3)
        var output = OutputQueue()
        Array("head".utf8).withUnsafeBytes { output.append($0) }
        output.append(pieces)
        #expect(output.heldBytes == 1_004)
        for left in [2, 1, 0, 0] {
            #expect(!output.isEmpty)
            let isWhole = output.send(to: ends[0])
            #expect(isWhole && pieces.left == left)
        }
        let isWhole = output.send(to: ends[0])
        #expect(isWhole && output.isEmpty && output.heldBytes == 0)
        var buffer = [UInt8](repeating: 0, count: 100)
        let count = read(ends[1], &buffer, buffer.count)
        let piece = "5\r\naaaaa\r\n"
        #expect(String(decoding: buffer[..<max(0, count)], as: UTF8.self) == "head" + piece + piece + piece + "0\r\n\r\n")
        #expect(output.sentBytes == count)
    }
}
