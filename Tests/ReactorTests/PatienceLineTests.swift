// Tests of a queue of waiters with one timeout: they are notified in order of arrival, and not after they left.

import Dispatch
import Reactor
import TestSupport
import Testing

@Suite("Waiting with a common timeout")
struct PatienceLineTests {
    private enum Step: Sendable {
        case come(Int)
        case leave(Int)
        /// Duration in milliseconds.
        case pass(Int64)
        case close
    }

    private struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let steps: [Step]
        /// Expected notifications, in order.
        let told: [Int]
        /// Waiters that `close` removes.
        var closed: [Int] = []
        /// Whether the queue still has waiters.
        var waits = false
    }

    private static let rows = [
        Row(testDescription: "no waiter is notified early", steps: [.come(1), .pass(9)], told: [], waits: true),
        Row(
            testDescription: "waiters are notified when their time comes", steps: [.come(1), .pass(6), .come(2), .pass(4)], told: [1],
            waits: true),
        Row(
            testDescription: "waiters are notified in order", steps: [.come(1), .pass(6), .come(2), .come(3), .pass(10)], told: [1, 2, 3]),
        Row(
            testDescription: "a waiter that left is not notified", steps: [.come(1), .come(2), .come(3), .leave(2), .pass(10)],
            told: [1, 3]),
        Row(testDescription: "the first waiter leaves", steps: [.come(1), .pass(5), .come(2), .leave(1), .pass(5), .pass(5)], told: [2]),
        Row(
            testDescription: "all waiters leave and others join",
            steps: [.come(1), .come(2), .leave(1), .leave(2), .pass(5), .come(3), .pass(5)],
            told: [], waits: true),
        Row(
            testDescription: "waiters that joined later are notified too",
            steps: [.come(1), .leave(1), .pass(5), .come(2), .pass(5), .pass(5)], told: [2]),
        Row(testDescription: "a waiter leaves twice", steps: [.come(1), .come(2), .leave(1), .leave(1), .pass(10)], told: [2]),
        Row(
            testDescription: "a notified waiter leaves", steps: [.come(1), .pass(5), .come(2), .pass(5), .leave(1), .pass(5), .leave(2)],
            told: [1, 2]),
        Row(
            testDescription: "the end notifies the remaining waiters",
            steps: [.come(1), .come(2), .pass(10), .come(3), .come(4), .leave(3), .close, .pass(10)], told: [1, 2], closed: [4]),
        Row(
            testDescription: "more waiters than one turn notifies", steps: (0..<1_000).map { .come($0) } + [.pass(10)],
            told: Array(0..<1_000)),
    ]

    /// `@unchecked Sendable` because it is used on the loop only.
    private final class Play: @unchecked Sendable {
        var told: [Int] = []
        var closed: [Int] = []
        var numbers: [Int: Int] = [:]
    }

    @Test("entries that still wait at the timeout are reported in order", arguments: rows)
    private func play(row: Row) {
        let time = ManualTime()
        let loop = EventLoop(label: "test", time: time)
        loop.start()
        let play = Play()
        let line = Carried(PatienceLine<Int>(loop: loop, milliseconds: 10) { play.told.append($0) })
        func onLoop(_ body: @escaping @Sendable () -> Void) {
            let done = DispatchSemaphore(value: 0)
            loop.execute {
                body()
                done.signal()
            }
            done.wait()
        }
        for step in row.steps {
            switch step {
            case .come(let one): onLoop { play.numbers[one] = line.value.add(one, at: loop.time.monotonicMilliseconds) }
            case .leave(let one): onLoop { play.numbers[one].map(line.value.leave) }
            case .pass(let milliseconds):
                time.advance(by: .milliseconds(milliseconds))
                // Each round of the loop fires some timers; eight rounds fire all.
                for _ in 0..<8 { onLoop {} }
            case .close: onLoop { line.value.close { play.closed.append($0) } }
            }
        }
        onLoop { #expect(play.told == row.told && play.closed == row.closed && line.value.isEmpty == !row.waits) }
        loop.stop()
    }

    /// `@unchecked Sendable` because it is touched on its loop only.
    private struct Carried: @unchecked Sendable {
        let value: PatienceLine<Int>
        init(_ value: PatienceLine<Int>) { self.value = value }
    }
}
