// Rewrites a file off the loop. Content that arrives during a write waits; only the latest such content is written.

import Dispatch
import Reactor

/// `@unchecked Sendable` because its state is used on its loop only; the queue receives only the content to write.
final class FileKeeper<Content: Sendable>: @unchecked Sendable {
    private struct Wanted {
        let content: Content
        var waiting: [(Bool) -> Void] = []
    }

    private let loop: EventLoop
    private let queue: DispatchQueue
    private let write: @Sendable (Content) -> Bool
    private var writing: Wanted?
    private var next: Wanted?

    /// - Parameter write: writes all of the content or nothing. Called off the loop.
    init(_ label: String, loop: EventLoop, write: @escaping @Sendable (Content) -> Bool) {
        (self.loop, self.write) = (loop, write)
        queue = DispatchQueue(label: label, qos: .userInitiated)
    }

    /// - Parameter then: called on the loop, in order, with true once this or later content is written, or false if the write failed.
    func keep(_ content: Content, then: ((Bool) -> Void)? = nil) {
        loop.assertOnLoop()
        next = Wanted(content: content, waiting: (next?.waiting ?? []) + (then.map { [$0] } ?? []))
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
        guard let content = writing?.content else { return }
        queue.async { [self] in
            let isWritten = write(content)
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
        let isWritten = write(last.content)
        for one in left.flatMap(\.waiting) { one(isWritten) }
    }
}
