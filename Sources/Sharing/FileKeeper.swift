// Rewrites a file off the loop. Content that arrives during a write waits; only the latest such content is written.

import Dispatch
import Reactor

/// `@unchecked Sendable` because its state is used on its loop only; the queue receives only the content to write.
final class FileKeeper: @unchecked Sendable {
    private struct Wanted {
        let write: @Sendable () -> Bool
        var waiting: [(Bool) -> Void]
    }

    private let loop: EventLoop
    private let queue: DispatchQueue
    private var writing: Wanted?
    private var next: Wanted?

    init(_ label: String, loop: EventLoop) {
        self.loop = loop
        queue = DispatchQueue(label: label, qos: .userInitiated)
    }

    /// - Parameters:
    ///   - write: writes all of the content or nothing. Called off the loop.
    ///   - then: called on the loop, in order, with true once this or later content is written, or false if the write failed.
    func keep(_ write: @escaping @Sendable () -> Bool, then: @escaping (Bool) -> Void) {
        loop.assertOnLoop()
        next = Wanted(write: write, waiting: (next?.waiting ?? []) + [then])
        if writing == nil { writeNext() }
    }

    /// - Parameter then: called on the loop when all contents so far are written.
    func whenWritten(_ then: @escaping () -> Void) {
        loop.assertOnLoop()
        if next != nil {
            next?.waiting.append { _ in then() }
        } else if writing != nil {
            writing?.waiting.append { _ in then() }
        } else {
            then()
        }
    }

    private func writeNext() {
        writing = next
        next = nil
        guard let write = writing?.write else { return }
        queue.async { [self] in
            let isWritten = write()
            loop.execute { self.wrote(isWritten) }
        }
    }

    private func wrote(_ isWritten: Bool) {
        guard let written = writing else { return }
        writing = nil
        for one in written.waiting { one(isWritten) }
        if writing == nil { writeNext() }
    }

    /// Waits until everything is written, and calls the callbacks.
    func finish() {
        queue.sync {}
        // The loop has not received the result of the running write yet, so that content is written again.
        let left = [writing, next].compactMap(\.self)
        (writing, next) = (nil, nil)
        guard let last = left.last else { return }
        let isWritten = last.write()
        for one in left.flatMap(\.waiting) { one(isWritten) }
    }
}
