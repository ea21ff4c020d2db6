// Tests of the program's log when its reader is slow or gone.

import Glibc
import TestSupport
import Testing

@testable import Figures

@Suite("Log writer")
struct LogWriterTests {
    @Test("writing into a full pipe does not block, and dropped lines are reported once it is read")
    func fullPipe() {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        defer { close(ends[0]) }
        let log = LogWriter(descriptor: ends[1])
        let line = String(repeating: "x", count: 99) + "\n"
        // More than two buffers: the first may be taken before the writer blocks.
        for _ in 0..<40_000 { log.append(line) }
        log.finish(within: 0)
        // This end stays open until everything is written. The reader below thus ends, and no write meets a closed pipe.
        TestThread.start { [end = ends[1]] in
            // A long timeout, for busy machines.
            log.finish(within: 600)
            close(end)
        }
        var text: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(ends[0], &piece, piece.count)
            guard count > 0 else { break }
            text += piece[..<count]
        }
        #expect(
            String(decoding: text, as: UTF8.self).contains(" log lines were dropped, because the reader of standard error is too slow\n"))
    }

    @Test("lines are written whole and in order")
    func order() {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let log = LogWriter(descriptor: ends[1])
        for number in 0..<100 { log.append("\(number)\n") }
        log.finish(within: 20)
        var piece = [UInt8](repeating: 0, count: 4_096)
        let count = read(ends[0], &piece, piece.count)
        #expect(String(decoding: piece[..<max(0, count)], as: UTF8.self) == (0..<100).map { "\($0)\n" }.joined())
    }
}
