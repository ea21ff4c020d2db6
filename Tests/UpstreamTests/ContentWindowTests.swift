// Tests of which requests with content may share an HTTP/2 connection.

import TestSupport
import Testing

@testable import Upstream

@Suite("Window for request content")
struct ContentWindowTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let content: Int
        let unsent: Int
        let window: Int
        let largest: Int
        let isCarried: Bool

        init(_ testDescription: String, _ content: Int, unsent: Int = 0, window: Int, of largest: Int = 65_535, _ isCarried: Bool) {
            (self.testDescription, self.content, self.unsent) = (testDescription, content, unsent)
            (self.window, self.largest, self.isCarried) = (window, largest, isCarried)
        }
    }

    @Test(
        "content uses a connection if it fits beside the unsent content, or if nothing is unsent and half of the window is free",
        arguments: [
            Row("no content, no window", 0, unsent: ContentWindow.longest, window: 0, true),
            Row("it fits", 1_000, window: 1_000, true), Row("no window", 1, window: 0, false),
            Row("it fits beside other content", 1_000, unsent: 500, window: 1_500, true),
            Row("it does not fit beside other content", 1_000, unsent: 501, window: 1_500, false),
            Row("long content on a new connection", ContentWindow.longest, window: 65_535, true),
            Row("long content while half of the window is free", 100_000, window: 32_767, true),
            Row("long content while less is free", 100_000, window: 32_766, false),
            Row("half of a larger window", 1_000_000, window: 400_000, of: 1 << 20, false),
            Row("long content beside short content", 100_000, unsent: 1, window: 65_535, false),
            Row("short content beside content of unknown length", 1, unsent: ContentWindow.longest, window: 65_535, false),
            Row("a hundred contents of unknown length", 1, unsent: 100 * ContentWindow.longest, window: Int(Int32.max), false),
        ])
    func rows(_ row: Row) {
        var window = ContentWindow(unsent: row.unsent)
        window.note(window: row.largest)
        #expect(window.mayCarry(row.content, window: row.window) == row.isCarried)
    }

    /// One connection to an upstream that reads only some contents.
    private struct Walk {
        private struct Content {
            var unsent: Int
            var unread = 0
            let isRead: Bool
        }

        private static let size = 65_535
        private var contents: [Content] = []
        private var known = ContentWindow()
        private var window = size

        mutating func step(_ random: inout SeededGenerator) throws {
            switch random.below(4) {
            case 0:
                let length = 1 + random.below(random.isTrue(oneIn: 4) ? 200_000 : 20_000)
                guard known.mayCarry(length, window: window) else { break }
                contents.append(Content(unsent: length, isRead: random.isTrue()))
                known.unsent += length
            case 1 where !contents.isEmpty: send(random.below(contents.count), 1 + random.below(16_384))
            case 2 where !contents.isEmpty: read(random.below(contents.count))
            default: contents.removeAll { $0.unsent == 0 && $0.unread == 0 }
            }
            // Whichever contents the upstream never reads, each other content can be sent.
            let unsent = contents.filter { $0.unsent > 0 }
            try demand(known.unsent == unsent.reduce(0) { $0 + $1.unsent })
            let unread = contents.reduce(0) { $0 + ($1.unsent == 0 ? $1.unread : 0) }
            try demand(known.unsent <= window || unsent.count == 1 && unread <= Self.size - Self.size / 2)
        }

        private mutating func send(_ index: Int, _ atMost: Int) {
            let count = min(atMost, window, contents[index].unsent)
            contents[index].unsent -= count
            contents[index].unread += count
            known.unsent -= count
            window -= count
        }

        private mutating func read(_ index: Int) {
            guard contents[index].isRead else { return }
            window += contents[index].unread
            contents[index].unread = 0
            known.note(window: window)
        }
    }

    @Test("random schedules: no content waits for window that unread content of other requests holds")
    func walk() {
        RandomSchedules.run(16, steps: 500) { _ in
            Walk()
        } step: {
            try $0.step(&$1)
        }
    }
}
