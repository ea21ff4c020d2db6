// Tests of request content on its way to the upstream, as lists of actions and results. Without sockets.

import HTTPCore
import Testing

@testable import Upstream

@Suite("Buffered request content")
struct PendingContentTests {
    /// An action of either side, with its expected results.
    private enum Step {
        /// The client's side appends this many bytes. Expected: whether the connection is notified, and whether the client must wait.
        case append(Int, callsConnection: Bool = false, holdsBack: Bool = false, isQueued: Bool = false)
        case close(callsConnection: Bool = false)
        case appendWhole(Int, callsConnection: Bool = false)
        /// The connection takes a piece of at most 16 KiB. Expected: whether the client is notified.
        case take(PendingContent.Piece, callsFlow: Bool = false)
    }

    /// - Returns: the final state, and the bytes sent.
    @discardableResult
    private func play(_ steps: [Step], isEmpty: Bool = false, inChunks: Bool = false, _ place: SourceLocation = #_sourceLocation)
        -> (state: PendingContent.State, output: [UInt8])
    {
        var content = PendingContent(isEmpty: isEmpty)
        var output: [UInt8] = []
        for (index, step) in steps.enumerated() {
            switch step {
            case .append(let count, let callsConnection, let holdsBack, let isQueued):
                #expect(content.append(bytes(count).span) == callsConnection, "step \(index)", sourceLocation: place)
                #expect(content.holdFlowBack(isQueued: isQueued) == holdsBack, "step \(index)", sourceLocation: place)
            case .close(let callsConnection): #expect(content.close() == callsConnection, "step \(index)", sourceLocation: place)
            case .appendWhole(let count, let callsConnection):
                #expect(content.appendWhole(bytes(count)) == callsConnection, "step \(index)", sourceLocation: place)
            case .take(let piece, let callsFlow):
                let taken = content.take(upTo: 16 * 1024, inChunks: inChunks, into: &output)
                #expect(taken == piece, "step \(index)", sourceLocation: place)
                #expect(content.releaseFlow() == callsFlow, "step \(index)", sourceLocation: place)
            }
        }
        return (content.state, output)
    }

    private func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 % 251) } }

    @Test("a request without content has sent all of it")
    func none() {
        #expect(play([.take(.end)], isEmpty: true).state == .taken)
        #expect(play([.close()], isEmpty: true).state == .taken)
    }

    @Test("content is taken in order, and its end is reported once it is known")
    func order() {
        let (state, output) = play([.append(10), .append(10), .take(.bytes(20)), .close(), .take(.end)])
        #expect(state == .taken && output == bytes(10) + bytes(10))
        #expect(play([.append(10), .close(), .take(.bytes(10))]).state == .taken)
    }

    @Test("a connection that has taken all buffered content is notified once about the next content or the end")
    func awaited() {
        #expect(play([.take(.nothingYet)]).state == .awaited)
        #expect(play([.take(.nothingYet), .append(1, callsConnection: true), .append(1), .take(.bytes(2))]).state == .open)
        #expect(play([.take(.nothingYet), .close(callsConnection: true), .take(.end)]).state == .taken)
        #expect(play([.take(.nothingYet), .appendWhole(3, callsConnection: true), .take(.bytes(3))]).state == .taken)
    }

    @Test("complete content is taken in pieces")
    func whole() {
        let (state, output) = play([.appendWhole(40_000), .take(.bytes(16_384)), .take(.bytes(16_384)), .take(.bytes(7_232)), .take(.end)])
        #expect(state == .taken && output == bytes(40_000))
    }

    @Test("content of unknown length is sent in chunks, with a last chunk of size zero (RFC 9112 §7.1)")
    func chunks() {
        let (_, output) = play([.append(26), .take(.bytes(26)), .close(), .take(.end)], inChunks: true)
        #expect(output == Array("1a\r\n".utf8) + bytes(26) + Array("\r\n0\r\n\r\n".utf8))
        #expect(play([.close(), .take(.end)], inChunks: true).output == Array("0\r\n\r\n".utf8))
    }

    @Test("the sender pauses above 256 KiB, or 16 KiB without a connection, and resumes once at 64 KiB")
    func highWater() {
        play([.append(256 * 1024), .append(1, holdsBack: true)])
        play([.append(16 * 1024, isQueued: true), .append(1, holdsBack: true, isQueued: true)])
        var steps: [Step] = [.append(256 * 1024 + 1, holdsBack: true)]
        steps += (0..<12).map { _ in .take(.bytes(16_384)) }
        // Bytes that are appended in spite of the limit do not change when the client is notified.
        steps += [.append(1, holdsBack: true), .take(.bytes(16_384), callsFlow: true), .take(.bytes(16_384)), .append(1)]
        play(steps)
    }

    @Test("a request can be retried only if none of its content has been taken")
    func hasBegun() {
        var content = PendingContent(isEmpty: false)
        var output: [UInt8] = []
        _ = content.append([1, 2].span)
        #expect(!content.hasBegun)
        _ = content.take(upTo: 1, inChunks: false, into: &output)
        #expect(content.hasBegun)
        var empty = PendingContent(isEmpty: false)
        _ = empty.close()
        _ = empty.take(upTo: 1, inChunks: true, into: &output)
        #expect(!empty.hasBegun)
    }

    @Test("complete content can be taken again until a response begins", arguments: [1, 3], [false, true])
    func rewound(taken: Int, inChunks: Bool) {
        var content = PendingContent(isEmpty: false)
        _ = content.appendWhole(bytes(40_000))
        var (first, second): ([UInt8], [UInt8]) = ([], [])
        for _ in 0..<taken { _ = content.take(upTo: 16_384, inChunks: inChunks, into: &first) }
        #expect(!content.hasBegun && content.state == (taken == 3 ? .taken : .closed))
        content.rewind()
        #expect(content.state == .closed && content.takenBytes == 0)
        while content.take(upTo: 16_384, inChunks: inChunks, into: &second) != .end {}
        #expect(second.starts(with: first) && second.count >= 40_000)
        content.releaseTaken()
        content.rewind()
        #expect(content.hasBegun && content.state == .taken)
    }

    @Test("content that is released while it is taken is taken to its end")
    func releasedEarly() {
        var content = PendingContent(isEmpty: false)
        _ = content.appendWhole(bytes(40_000))
        var output: [UInt8] = []
        _ = content.take(upTo: 16_384, inChunks: false, into: &output)
        content.releaseTaken()
        #expect(content.hasBegun)
        while content.take(upTo: 16_384, inChunks: false, into: &output) != .end {}
        #expect(output == bytes(40_000))
    }
}
