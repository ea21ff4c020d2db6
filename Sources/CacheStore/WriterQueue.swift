// The queue of the store's writer, and the decision when to wake it. Waking costs two thread switches, more than writing a small record.
// So responses are collected for a short time and written with one call. Removals and marks never wait, because a purged response must not
// reappear after a crash.

import TakeOver

/// The writer's queue, behind a mutex of the writer. All threads that change the store append work; the writer removes it.
struct WriterQueue {
    /// How the writer must be woken after work was queued.
    enum Waking {
        /// Not at all: it is awake already or must not write.
        case none
        /// After `StoreSettings.gatheringMilliseconds`.
        case soon
        case now
    }

    /// How queued work is handled.
    private enum Course {
        case written
        /// The work waits while another process owns the files.
        case held
        /// The work is dropped, because another process owns the files permanently.
        case dropped
    }

    private var course: Course
    /// Called with the removals and marks of this process while another process serves too; nil if there is none.
    private var peer: (@Sendable (PassedChange) -> Void)?
    /// Removals, marks and other work that must survive a crash. It is written before all other work.
    private var needed: [StoreWriter.Work] = []
    private var rest: [StoreWriter.Work] = []
    /// Bytes of `rest`.
    private var bytes = 0
    /// Whether the writer was woken with `.now` and has not taken work since then.
    private var isCalled = false
    /// Whether a wake-up with `.soon` is pending.
    private var isTimed = false
    /// Number of pieces of needed work that were ever queued, and number of those that the writer has processed.
    private var neededCount: UInt64 = 0
    private var settledCount: UInt64 = 0
    /// Whether the disk accepted the needed work that the writer processed last.
    private var tookNeeded = true
    private var waiters: [(number: UInt64, then: @Sendable (_ isWritten: Bool) -> Void)] = []

    /// Bytes of collected responses that trigger a write at once. Together with the collection time, it limits what a crash can lose.
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

    /// Ends the collection time. The next response starts another one.
    mutating func endMoment() { isTimed = false }

    /// Takes all needed work in order, with its number for `settle`. The work overtakes other work. That is safe: an item that was queued
    /// earlier under an equal key has been replaced or removed by then, so the writer skips it.
    mutating func takeNeeded() -> (work: [StoreWriter.Work], number: UInt64) {
        guard course == .written else { return ([], settledCount) }
        defer { (needed, isCalled) = ([], false) }
        return (needed, neededCount)
    }

    /// Takes all work for the writer. Needed work precedes other work.
    mutating func takeAll() -> (needed: (work: [StoreWriter.Work], number: UInt64), rest: [StoreWriter.Work]) {
        guard course == .written else { return (([], settledCount), []) }
        defer { (rest, bytes) = ([], 0) }
        return (takeNeeded(), rest)
    }

    // MARK: Waiting for needed work

    /// Whether this process may write the files.
    var isOurs: Bool { course == .written }

    /// Whether needed work is in no file.
    var hasUnwritten: Bool { course == .written && (neededCount > settledCount || !tookNeeded) }

    /// Calls `then` once the needed work that was queued until now is in a file, or the disk has refused it.
    /// - Returns: false if there is nothing to wait for; `then` is then not called.
    mutating func wait(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) -> Bool {
        guard course == .written, neededCount > settledCount else { return false }
        waiters.append((neededCount, then))
        return true
    }

    /// Whether the last needed work is in a file. True if another process owns the files.
    var isWritten: Bool { course != .written || tookNeeded }

    /// Records that the writer has processed the needed work up to this number.
    /// - Returns: the callbacks that waited for it.
    mutating func settle(_ number: UInt64, isWritten: Bool) -> [@Sendable (_ isWritten: Bool) -> Void] {
        (settledCount, tookNeeded) = (max(settledCount, number), isWritten)
        guard !waiters.isEmpty else { return [] }
        let settled = settledCount
        let ready = waiters.filter { $0.number <= settled }.map(\.then)
        waiters.removeAll { $0.number <= settled }
        return ready
    }

    // MARK: Another process

    /// Stops the writer. Waiting and later work is passed to the other process, and kept in case that process does not start.
    /// - Parameter unwritten: work that the disk refused. It precedes all other work. A response is passed as a stale mark only.
    /// - Returns: the callbacks that wait for needed work, which the other process now has.
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

    /// Drops all work, because the other process owns the files.
    mutating func leave() { (course, needed, rest, bytes) = (.dropped, [], [], 0) }

    /// Resumes writing. The writer takes the waiting work first.
    mutating func write() { (course, peer, isCalled, isTimed) = (.written, nil, true, false) }

    /// Whether another process owns the files, or receives the changes of this process.
    var hasPeer: Bool { course != .written || peer != nil }

    /// - Parameter peer: called in the order of the changes; nil for no process.
    mutating func setPeer(_ peer: (@Sendable (PassedChange) -> Void)?) { self.peer = peer }

    /// Sends a change that is not written to the other process.
    func sendToPeer(_ change: PassedChange) { peer?(change) }
}

extension StoreWriter.Work {
    /// The change for the other process; nil for ordinary responses, which it has already or fetches itself.
    fileprivate var passed: PassedChange? {
        switch self {
        case .item(let item): item.passed ?? (item.isMarkedStale ? .staleMark(low: item.hash.low, high: item.hash.high) : nil)
        case .removal(let hash): .removal(low: hash.low, high: hash.high)
        case .clearing: .clearing
        case .staleMark(let hash): .staleMark(low: hash.low, high: hash.high)
        case .staleAll: .staleAll
        case .notes: nil
        }
    }

    fileprivate var hash: KeyHash? { if case .item(let item) = self { item.hash } else { nil } }

    var bytes: Int { if case .item(let item) = self { item.bytes } else { 0 } }

    /// Whether a crash may lose the work: true for responses, which can be fetched again.
    fileprivate var mayWait: Bool { if case .item(let item) = self { !item.retention.isNeeded && !item.isMarkedStale } else { false } }

    /// Returns the header of the work's record.
    /// - Parameter encoded: the encoded content of an item; nil to write it as it is.
    func header(_ encoded: [UInt8]?) -> RecordHeader {
        switch self {
        case .item(let item): item.header(encoded)
        case .removal(let hash): RecordHeader(kind: .removal, hash: hash)
        case .clearing: RecordHeader(kind: .clearing, hash: .zero)
        case .staleMark(let hash): RecordHeader(kind: .staleMark, hash: hash)
        case .staleAll: RecordHeader(kind: .staleAll, hash: .zero)
        case .notes(let notes): WrittenNote.header(count: notes.count)
        }
    }

    /// Whether the work removes stored items or marks them as stale. On a full disk, space is made for such work.
    var takesBack: Bool {
        switch self {
        case .item(let item): item.retention.isNeeded
        case .notes: false
        case .removal, .clearing, .staleMark, .staleAll: true
        }
    }
}

extension Array {
    /// Splits the array in order into slices. Each slice except the last has at least this many bytes.
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
