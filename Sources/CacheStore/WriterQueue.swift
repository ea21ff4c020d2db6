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
    /// Removals, marks and what else a crash must not cost: it is written before all other work.
    private var needed: [StoreWriter.Work] = []
    private var rest: [StoreWriter.Work] = []
    /// Of `rest`.
    private var bytes = 0
    /// It is to come at once, and has not come yet.
    private var isCalled = false
    /// It will come when the moment has passed.
    private var isTimed = false
    /// Pieces of needed work that were ever queued, and those of them that the writer has dealt with.
    private var neededCount: UInt64 = 0
    private var settledCount: UInt64 = 0
    /// Whether the disk took the needed work that the writer dealt with last.
    private var tookNeeded = true
    private var waiters: [(number: UInt64, then: @Sendable (_ isWritten: Bool) -> Void)] = []

    /// So much is written at once. It bounds what a crash can cost, together with the moment.
    static let gatheredBytes = 256 << 10

    init(isHeld: Bool = false) { course = isHeld ? .held : .written }

    mutating func append(_ one: StoreWriter.Work) -> Waking {
        if let peer, let change = one.passed { peer(change) }
        guard course != .dropped else { return .none }
        if one.mayWait {
            rest.append(one)
            bytes += one.bytes
        } else {
            needed.append(one)
            neededCount += 1
        }
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

    /// For the writer: all needed work in its order, and its number for `settle`. It overtakes the rest. That is safe: an item that was queued earlier under
    /// the same key has been replaced or removed by then, so the writer skips it.
    mutating func takeNeeded() -> (work: [StoreWriter.Work], number: UInt64) {
        guard course == .written else { return ([], settledCount) }
        defer { (needed, isCalled) = ([], false) }
        return (needed, neededCount)
    }

    /// For the writer: all of it. The needed work comes first.
    mutating func takeAll() -> (needed: (work: [StoreWriter.Work], number: UInt64), rest: [StoreWriter.Work]) {
        guard course == .written else { return (([], settledCount), []) }
        defer { (rest, bytes) = ([], 0) }
        return (takeNeeded(), rest)
    }

    // MARK: Waiting for needed work

    /// Whether this process may write the files.
    var isOurs: Bool { course == .written }

    /// Whether needed work is not in a file.
    var hasUnwritten: Bool { course == .written && (neededCount > settledCount || !tookNeeded) }

    /// Calls `then` once the needed work that was queued until now is in a file, or the disk has refused it.
    /// - Returns: false where nothing is waited for: `then` is not called.
    mutating func wait(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) -> Bool {
        guard course == .written, neededCount > settledCount else { return false }
        waiters.append((neededCount, then))
        return true
    }

    /// Whether the needed work that was queued last is in a file. Another process's files are that process's matter.
    var isWritten: Bool { course != .written || tookNeeded }

    /// The writer has dealt with the needed work up to this number.
    /// - Returns: those who waited for that.
    mutating func settle(_ number: UInt64, isWritten: Bool) -> [@Sendable (_ isWritten: Bool) -> Void] {
        (settledCount, tookNeeded) = (max(settledCount, number), isWritten)
        guard !waiters.isEmpty else { return [] }
        let settled = settledCount
        let ready = waiters.filter { $0.number <= settled }.map(\.then)
        waiters.removeAll { $0.number <= settled }
        return ready
    }

    // MARK: Another process

    /// The writer gets nothing more. What waits, and all that comes, is passed on; and it is kept, in case that the other process does not begin.
    /// - Parameter unwritten: what the disk did not take. It comes before all else. Of a response the other process learns that there was a newer
    ///   one than its own.
    /// - Returns: those who wait for needed work: that is the other process's matter now.
    mutating func pass(
        _ unwritten: [StoreWriter.Work], to successor: @escaping @Sendable (PassedChange) -> Void
    ) -> [@Sendable (_ isWritten: Bool) -> Void] {
        for one in unwritten + needed + rest {
            if let change = one.passed ?? one.hash.map({ .staleMark(low: $0.low, high: $0.high) }) { successor(change) }
        }
        (course, peer) = (.held, successor)
        defer { waiters = [] }
        return waiters.map(\.then)
    }

    /// The other process has it: nothing is kept here any more.
    mutating func leave() { (course, needed, rest, bytes) = (.dropped, [], [], 0) }

    /// The writer gets all, what has waited first.
    mutating func write() { (course, peer, isCalled, isTimed) = (.written, nil, true, false) }

    /// Whether another process has the files, or hears of changes.
    var hasPeer: Bool { course != .written || peer != nil }

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

    var bytes: Int { if case .item(let item) = self { item.bytes } else { 0 } }

    /// Whether a crash may cost it: a response that is fetched again then.
    fileprivate var mayWait: Bool { if case .item(let item) = self { !item.retention.isNeeded && !item.isMarkedStale } else { false } }

    /// - Parameter encoded: an item's content with its coding.
    func header(_ encoded: [UInt8]?) -> RecordHeader {
        switch self {
        case .item(let item): item.header(encoded)
        case .removal(let hash): RecordHeader(kind: .removal, hash: hash)
        case .clearing: RecordHeader(kind: .clearing, hash: KeyHash(low: 0, high: 0))
        case .staleMark(let hash): RecordHeader(kind: .staleMark, hash: hash)
        case .staleAll: RecordHeader(kind: .staleAll, hash: KeyHash(low: 0, high: 0))
        }
    }

    /// What was stored must not come back: for this a full disk gets room.
    var takesBack: Bool { if case .item(let item) = self { item.retention.isNeeded } else { true } }
}

extension Array {
    /// In their order, each of at least so many bytes, but for the last one.
    func parts(bytes: Int, _ size: (Element) -> Int) -> [ArraySlice<Element>] {
        var (parts, start, sum): ([ArraySlice<Element>], Int, Int) = ([], 0, 0)
        for index in indices {
            sum += size(self[index])
            guard sum >= bytes || index == count - 1 else { continue }
            parts.append(self[start...index])
            (start, sum) = (index + 1, 0)
        }
        return parts
    }
}
