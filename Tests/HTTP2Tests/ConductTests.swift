// Tests of the limits on a peer's behavior, by frame and by second.

import Testing

@testable import HTTP2

@Suite("Limits on a peer's frames")
struct ConductTests {
    private static func frame(_ kind: UInt8, _ flags: UInt8 = 0, _ stream: Int32 = 0, length: Int = 0) -> [UInt8] {
        [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), kind, flags]
            + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: stream >> $0) } + [UInt8](repeating: 7, count: length)
    }

    private static func head(_ kind: UInt8, _ flags: UInt8 = 0, _ stream: Int32 = 0, length: Int = 0) -> HTTP2FrameHead {
        frame(kind, flags, stream, length: length).withUnsafeBytes { HTTP2FrameHead($0) }
    }

    private static func walk(_ bytes: [UInt8], split: Int) -> [HTTP2FrameHead] {
        var walk = HTTP2FrameWalk()
        var heads: [HTTP2FrameHead] = []
        for piece in [bytes[..<split], bytes[split...]] {
            Array(piece).withUnsafeBytes { piece in
                var position = 0
                while let head = walk.next(piece, &position) { heads.append(head) }
            }
        }
        return heads
    }

    @Test("frames are parsed equally however their bytes are split")
    func walk() {
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        let bytes = preface + Self.frame(4, 0, 0, length: 6) + Self.frame(1, 4, 1, length: 300) + Self.frame(0, 1, .max) + Self.frame(99)
        let whole = Self.walk(bytes, split: bytes.count)
        #expect(whole.map(\.length) == [6, 300, 0, 0] && whole.map(\.stream) == [0, 1, .max, 0])
        #expect(whole.map(\.kind) == [.settings, .headers, .data, nil])
        for split in 0...bytes.count { #expect(Self.walk(bytes, split: split) == whole) }
    }

    @Test("frames without content are limited per second, and sent content raises the limit")
    func control() {
        var budget = HTTP2ControlBudget(perSecond: 10, now: 0)
        func take(_ frame: HTTP2FrameHead, now: Int64) -> Bool { budget.take(frame, now: now) }
        let ping = Self.head(6, length: 8)
        for _ in 0..<10 { #expect(take(ping, now: 0)) }
        #expect(!take(ping, now: 0))
        #expect(take(ping, now: 1_000))
        for (kind, length) in [(UInt8(2), 5), (4, 0), (8, 4), (0, 0), (77, 1)] {
            #expect(take(Self.head(kind, length: length), now: 1_000))
        }
        for _ in 0..<4 { _ = take(ping, now: 1_000) }
        #expect(!take(ping, now: 1_000))
        #expect(take(Self.head(0, length: 1), now: 1_000) && take(Self.head(1, length: 0), now: 1_000))
        budget.sentContent(bytes: 1)
        for kind: UInt8 in [8, 8, 8, 6] { #expect(take(Self.head(kind, length: 4), now: 1_000)) }
        #expect(!take(Self.head(8, length: 4), now: 1_000) && !take(ping, now: 1_000))
    }

    /// Takes WINDOW_UPDATE frames at one time.
    /// - Returns: number of frames until the limit, at most `limit`.
    private static func updates(_ budget: inout HTTP2ControlBudget, limit: Int) -> Int {
        let update = head(8, length: 4)
        var count = 0
        while count < limit, budget.take(update, now: 0) { count += 1 }
        return count
    }

    @Test("sent content may be acknowledged in pieces of any size on both levels", arguments: [1, 7, 512, 4_096, 16_384])
    func acknowledged(pieceBytes: Int) {
        var budget = HTTP2ControlBudget(perSecond: 10, now: 0)
        let frames = 60
        for _ in 0..<frames { budget.sentContent(bytes: 16_384) }
        let due = 2 * (frames * 16_384 / pieceBytes)
        let taken = Self.updates(&budget, limit: due)
        #expect(taken == due)
    }

    @Test("WINDOW_UPDATE frames that can acknowledge no content are limited, also after much content")
    func unfoundedUpdates() {
        var budget = HTTP2ControlBudget(perSecond: 10, now: 0)
        let withoutContent = Self.updates(&budget, limit: 100)
        budget.sentContent(bytes: 100)
        let withContent = Self.updates(&budget, limit: 1_000)
        for _ in 0..<1_000 { budget.sentContent(bytes: 1 << 30) }
        let withMuchContent = Self.updates(&budget, limit: 10_000_000)
        let later = Self.updates(&budget, limit: 1)
        let expected: [Int] = [10, 202, 2_097_162, 0]
        #expect([withoutContent, withContent, withMuchContent, later] == expected)
    }

    @Test("acknowledgements of content permit no other frames")
    func otherFrames() {
        var budget = HTTP2ControlBudget(perSecond: 10, now: 0)
        budget.sentContent(bytes: 16_384)
        let ping = Self.head(6, length: 8)
        var count = 0
        while count < 100, budget.take(ping, now: 0) { count += 1 }
        #expect(count == 10)
    }

    @Test("reset streams are limited, and completed streams and time raise the limit")
    func resets() {
        var budget = HTTP2ResetBudget(limit: 3, now: 0)
        func take(now: Int64) -> Bool { budget.take(now: now) }
        for _ in 0..<3 { #expect(take(now: 0)) }
        budget.endedWell()
        #expect(take(now: 0))
        #expect(!take(now: 0))
        var later = HTTP2ResetBudget(limit: 3, now: 0)
        for second in 0..<100 {
            let isAllowed = later.take(now: Int64(second) * 100)
            #expect(isAllowed)
        }
    }

    @Test("frames on a closed stream are distinguished from frames sent before the peer knew")
    func closedStreams() {
        var memory = HTTP2StreamMemory()
        func fault(_ kind: UInt8, _ stream: Int32) -> HTTP2ErrorCode? {
            let head = Self.head(kind, 0, stream)
            return memory.note(head) ? memory.fault(of: head) : nil
        }
        #expect(fault(1, 1) == nil && fault(0, 1) == nil)
        memory.end(1)
        #expect(fault(0, 1) == .streamClosed && fault(1, 1) == .streamClosed && fault(8, 1) == nil)
        #expect(fault(1, 7) == nil)
        #expect(fault(1, 3) == .protocolError && fault(1, 5) == .protocolError)
        // Stream 7 may have been reset by us: the peer has not ended it.
        #expect(fault(0, 7) == nil)
        for number in 0..<200 { memory.end(Int32(9 + 2 * number)) }
        #expect(fault(0, 1) == nil)
    }
}
