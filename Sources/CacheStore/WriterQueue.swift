// What waits for the store's writer, and when the writer is woken. That costs two switches of threads, more than writing a small record does: so
// what may wait is gathered for a moment, and written with one call. Removals and marks never wait: what they are about must not be back after
// a crash.

import TakeOver

/// Behind a mutex of the writer's: filled by those who put in, emptied by the writer.
struct WriterQueue {
    /// What is to be done about the writer once a piece of work is queued.
    enum Waking {
        /// Nothing: it comes anyway.
        case none
        /// It is to come in a moment (`StoreSettings.gatheringMilliseconds`).
        case soon
        case now
    }

    /// What becomes of what is queued.
    private enum Course {
        case written
        /// It waits: the files are another process's.
        case held
        /// They are, for good.
        case dropped
    }

    private var course: Course
    /// Another process that is to know of all that takes something back, as long as both serve.
    private var peer: (@Sendable (PassedChange) -> Void)?
    private var work: [StoreWriter.Work] = []
    private var bytes = 0
    /// It is to come at once, and has not come yet.
    private var isCalled = false
    /// It will come when the moment has passed.
    private var isTimed = false

    /// So much is written at once. It bounds what a crash can cost, together with the moment.
    static let gatheredBytes = 256 << 10

    init(isHeld: Bool = false) { course = isHeld ? .held : .written }

    mutating func append(_ one: StoreWriter.Work) -> Waking {
        if let peer, let change = one.passed { peer(change) }
        guard course != .dropped else { return .none }
        work.append(one)
        bytes += one.bytes
        guard course == .written, !isCalled else { return .none }
        if !one.mayWait || bytes >= Self.gatheredBytes {
            isCalled = true
            return .now
        }
        guard !isTimed else { return .none }
        isTimed = true
        return .soon
    }

    /// The moment is over: who comes next begins another.
    mutating func endMoment() { isTimed = false }

    /// All of it, in its order, for the writer.
    mutating func takeAll() -> [StoreWriter.Work] {
        guard course == .written else { return [] }
        defer { (work, bytes, isCalled) = ([], 0, false) }
        return work
    }

    // MARK: Another process

    /// The writer gets nothing more. What waits, and all that comes, is passed on; and it is kept, in case that the other process does not begin.
    /// - Parameter unwritten: what the disk did not take. It comes before all else. Of a response the other process learns that there was a newer
    ///   one than its own.
    mutating func pass(_ unwritten: [StoreWriter.Work], to successor: @escaping @Sendable (PassedChange) -> Void) {
        for one in unwritten + work {
            if let change = one.passed ?? one.hash.map({ .staleMark(low: $0.low, high: $0.high) }) { successor(change) }
        }
        (course, peer) = (.held, successor)
    }

    /// The other process has it: nothing is kept here any more.
    mutating func leave() { (course, work, bytes) = (.dropped, [], 0) }

    /// The writer gets all, what has waited first.
    mutating func write() { (course, peer, isCalled, isTimed) = (.written, nil, true, false) }

    /// - Parameter peer: called in the order of the changes; nil: nobody.
    mutating func tell(_ peer: (@Sendable (PassedChange) -> Void)?) { self.peer = peer }

    /// Of something that is not written.
    func tell(_ change: PassedChange) { peer?(change) }
}

extension StoreWriter.Work {
    /// Of what takes something back: marks go on as they are. nil: the other process has, or gets, one of its own.
    fileprivate var passed: PassedChange? {
        switch self {
        case .item(let item): item.passed ?? (item.isMarkedStale ? .staleMark(low: item.hash.low, high: item.hash.high) : nil)
        case .removal(let hash): .removal(low: hash.low, high: hash.high)
        case .clearing: .clearing
        case .staleMark(let hash): .staleMark(low: hash.low, high: hash.high)
        case .staleAll: .staleAll
        }
    }

    fileprivate var hash: KeyHash? { if case .item(let item) = self { item.hash } else { nil } }

    fileprivate var bytes: Int { if case .item(let item) = self { item.bytes } else { 0 } }

    /// Whether a crash may cost it: a response that is fetched again then.
    fileprivate var mayWait: Bool { if case .item(let item) = self { !item.retention.isNeeded && !item.isMarkedStale } else { false } }
}
