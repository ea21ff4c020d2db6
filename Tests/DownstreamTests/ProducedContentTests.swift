// Tests of content that is produced while it is sent: one piece per turn, however fast the client reads.

import CSystem
import Glibc
import Reactor
import Testing

@testable import Downstream

@Suite("Content produced while it is sent")
struct ProducedContentTests {
    private final class Pieces: ContentProducer {
        var left: Int
        let source: (bytes: UnsafeRawBufferPointer, owner: AnyObject)?
        init(_ count: Int, of source: (bytes: UnsafeRawBufferPointer, owner: AnyObject)? = nil) { (left, self.source) = (count, source) }
        var heldBytes: Int { 1_000 }
        var length: Int? { nil }
        func makeNext(then: @escaping @Sendable (ProducedPiece) -> Void) {
            guard left > 0 else { return then(.end) }
            left -= 1
            then(.bytes([UInt8](repeating: 0x61, count: 5)))
        }
    }

    /// Produces the next piece for the queue.
    private func make(_ outcome: OutputQueue.Outcome, _ output: inout OutputQueue) -> Bool {
        guard case .unmade(let producer) = outcome else { return false }
        let made = Mutex(ProducedPiece.end)
        producer.makeNext { piece in made.withLock { $0 = piece } }
        if case .bytes(let piece) = made.withLock({ $0 }) { output.append(made: piece) } else { output.endProduced() }
        return true
    }

    @Test("one piece is produced at a time, even if the kernel would accept all of them")
    func pieces() {
        var ends: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let near = ClientTransport(Descriptor(ends[0]))
        defer { close(ends[1]) }
        let pieces = Pieces(3)
        var output = OutputQueue()
        Array("head".utf8).withUnsafeBytes { output.append($0) }
        output.append(pieces)
        #expect(output.heldBytes == 1_004)
        for left in [2, 1, 0, 0] {
            #expect(output.isEmpty == false)
            let outcome = output.send(to: near)
            #expect(make(outcome, &output) && pieces.left == left)
        }
        #expect(isSent(output.send(to: near)) && output.isEmpty && output.heldBytes == 0)
        var buffer = [UInt8](repeating: 0, count: 100)
        let count = read(ends[1], &buffer, buffer.count)
        let piece = "5\r\naaaaa\r\n"
        #expect(String(decoding: buffer[..<max(0, count)], as: UTF8.self) == "head" + piece + piece + piece + "0\r\n\r\n")
        #expect(output.sentBytes == count)
    }

    private func isSent(_ outcome: OutputQueue.Outcome) -> Bool {
        guard case .sent = outcome else { return false }
        return true
    }

    private final class Disk: ContentMemory {
        func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) -> Bool { false }
        func load(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void) {}
    }

    @Test("no piece is produced from content that is not in memory")
    func onDisk() {
        var ends: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let near = ClientTransport(Descriptor(ends[0]))
        defer { close(ends[1]) }
        let (disk, stored) = (Disk(), [UInt8](repeating: 0x62, count: 10))
        stored.withUnsafeBytes { bytes in
            let pieces = Pieces(1, of: (bytes, disk))
            var output = OutputQueue()
            Array("head".utf8).withUnsafeBytes { output.append($0) }
            output.append(pieces)
            guard case .onDisk(let wanted, let owner) = output.send(to: near, disk) else {
                Issue.record("a piece was made")
                return
            }
            // Everything before it has been sent.
            #expect(wanted.baseAddress == bytes.baseAddress && owner === disk && pieces.left == 1 && output.sentBytes == 4)
            // Loaded content is not loaded again. Otherwise it could be evicted and loaded forever while memory is short.
            output.loadedPiece = wanted.baseAddress
            let outcome = output.send(to: near, disk)
            #expect(make(outcome, &output) && pieces.left == 0 && !output.isEmpty)
        }
    }
}
