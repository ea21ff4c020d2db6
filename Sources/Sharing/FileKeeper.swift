// Writes a file anew beside its loop, which a slow disk would else hold up. Of what is handed over while one write is under way the last counts for all.

import Dispatch
import Reactor

/// `@unchecked Sendable` because it is touched on its loop only; the queue has no more than what it is to write.
final class FileKeeper<Content: Sendable>: @unchecked Sendable {
    private struct Wanted {
        let content: Content
        /// Told whether it lies on the disk.
        var waiting: [(Bool) -> Void] = []
    }

    private let loop: EventLoop
    private let queue: DispatchQueue
    private let write: @Sendable (Content) -> Bool
    private var underWay: Wanted?
    private var next: Wanted?

    /// - Parameter write: all of it, or nothing; not on the loop.
    init(_ label: String, loop: EventLoop, write: @escaping @Sendable (Content) -> Bool) {
        (self.loop, self.write) = (loop, write)
        queue = DispatchQueue(label: label, qos: .userInitiated)
    }

    /// - Parameter then: called on the loop, in order, when this or something later was written, or could not be.
    func keep(_ content: Content, then: ((Bool) -> Void)? = nil) {
        loop.assertOnLoop()
        next = Wanted(content: content, waiting: (next?.waiting ?? []) + (then.map { [$0] } ?? []))
        if underWay == nil { writeNext() }
    }

    /// - Parameter then: called on the loop when nothing is left of what was handed over until now.
    func whenWritten(_ then: @escaping () -> Void) {
        loop.assertOnLoop()
        if next != nil {
            next?.waiting.append { _ in then() }
        } else if underWay != nil {
            underWay?.waiting.append { _ in then() }
        } else {
            then()
        }
    }

    private func writeNext() {
        underWay = next
        next = nil
        guard let content = underWay?.content else { return }
        queue.async { [self] in
            let isWritten = write(content)
            loop.execute { self.wrote(isWritten) }
        }
    }

    private func wrote(_ isWritten: Bool) {
        guard let written = underWay else { return }
        underWay = nil
        for one in written.waiting { one(isWritten) }
        // One of these may have handed over more.
        if underWay == nil { writeNext() }
    }

    /// Waits until all is written. What is told then is told now: the loop ends.
    func finish() {
        queue.sync {}
        // What came of the write under way is known there only: it is written once more.
        let left = [underWay, next].compactMap(\.self)
        (underWay, next) = (nil, nil)
        guard let last = left.last else { return }
        let isWritten = write(last.content)
        for one in left.flatMap(\.waiting) { one(isWritten) }
    }
}
