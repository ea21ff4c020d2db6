// What waits for the store's writer, and when the writer is woken. That costs two switches of threads, more than writing a small record does: so
// what may wait is gathered for a moment, and written with one call. Removals and marks never wait: what they are about must not be back after
// a crash.

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

    private var work: [StoreWriter.Work] = []
    private var bytes = 0
    /// It is to come at once, and has not come yet.
    private var isCalled = false
    /// It will come when the moment has passed.
    private var isTimed = false

    /// So much is written at once. It bounds what a crash can cost, together with the moment.
    static let gatheredBytes = 256 << 10

    mutating func append(_ one: StoreWriter.Work) -> Waking {
        work.append(one)
        bytes += one.bytes
        guard !isCalled else { return .none }
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
        defer { (work, bytes, isCalled) = ([], 0, false) }
        return work
    }
}

extension StoreWriter.Work {
    fileprivate var bytes: Int { if case .item(let item) = self { item.bytes } else { 0 } }

    /// Whether a crash may cost it: a response that is fetched again then.
    fileprivate var mayWait: Bool { if case .item(let item) = self { !item.retention.isNeeded && !item.isMarkedStale } else { false } }
}
