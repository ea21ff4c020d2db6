// A disk that refuses writes: the store says so at once, accepts no new items, tries again at intervals, and goes on by evidence: a written record.

import CSystem
import Dispatch
import Glibc
import Locking

extension StoreWriter {
    enum Trouble {
        /// No segment could be made. Small records may still go to the end of the last one: that is no recovery.
        case noRoom(WriteFault)
        case failedWrite(WriteFault)

        var fault: WriteFault {
            switch self {
            case .noRoom(let fault), .failedWrite(let fault): fault
            }
        }

        var isFailedWrite: Bool { if case .failedWrite = self { true } else { false } }
    }

    struct RefusingState {
        var trouble: Trouble?
        /// Failed attempts.
        var failures = 0
        /// The oldest segment went for a new one, and there is none: no more of them go, until there is room.
        var evictedInVain = false
        /// The largest record that may have room on a disk that does not tell how much it has; nil: nothing was refused for its size.
        var recordLimit: Int?
        /// Milliseconds of a clock that is never set.
        var since: Int64 = 0
        /// When a failure was last told of; nil: never.
        var toldAt: Int64?
        /// Whether a recovery is to be told of.
        var isTold = false
        var limitToldAt: Int64?
        var roomCheckedAt: Int64 = 0
        var isRetryScheduled = false
    }

    /// A failure that lasts is told of so often, and a new one no more often.
    static let tellingMilliseconds: Int64 = 60_000
    static let limitTellingMilliseconds: Int64 = 3_600_000

    func fault(_ error: Segment.WriteError) -> WriteFault {
        WriteFault(error.code, path: error.path, room: error.code == ENOSPC ? settings.room(settings.directory) : nil)
    }

    /// Of the segment that would be made next.
    func fault(_ code: Int32) -> WriteFault {
        fault(Segment.WriteError(code: code, path: Segment.path(position.segment + 1, settings.directory)))
    }

    /// - Parameter trouble: nil: the disk takes writes.
    func note(_ trouble: Trouble?, _ store: ResponseStore) {
        let (wall, now) = (settings.now(), Self.milliseconds(CLOCK_MONOTONIC))
        let former = refusing.trouble
        refusing.trouble = trouble
        guard let trouble else {
            store.state.withLock { $0.statistics.accept(at: wall) }
            if let former, refusing.isTold { settings.whenWriting?(.recovered(former.fault, seconds: (now - refusing.since) / 1_000)) }
            refusing.isTold = false
            return
        }
        refusing.failures += 1
        if former == nil { refusing.since = now }
        store.state.withLock { state in
            state.statistics.count(trouble.fault)
            state.statistics.refuse(trouble.fault, at: wall)
        }
        if refusing.toldAt.map({ now - $0 >= Self.tellingMilliseconds }) ?? true {
            (refusing.toldAt, refusing.isTold) = (now, true)
            settings.whenWriting?(.failing(trouble.fault, seconds: (now - refusing.since) / 1_000))
        }
        scheduleRetry(store)
    }

    /// The store goes on with less than the settings allow.
    /// - Parameter size: of the next segment.
    func noteLimit(beside size: Int, _ store: ResponseStore) {
        let roomBytes = store.state.withLock { state in
            state.statistics.roomBytes = min(state.statistics.roomBytes, state.segments.bytes + size)
            return state.statistics.roomBytes
        }
        let now = Self.milliseconds(CLOCK_MONOTONIC)
        guard refusing.limitToldAt.map({ now - $0 >= Self.limitTellingMilliseconds }) ?? true else { return }
        refusing.limitToldAt = now
        settings.whenWriting?(.limited(roomBytes: roomBytes))
    }

    /// The directory could not be opened for writing, and it is tried again.
    func refuse(_ fault: WriteFault, _ store: ResponseStore) {
        serial.sync {
            (refusing.trouble, refusing.isTold, refusing.since) = (.noRoom(fault), true, Self.milliseconds(CLOCK_MONOTONIC))
            scheduleRetry(store)
        }
    }

    private func scheduleRetry(_ store: ResponseStore) {
        guard settings.retryMilliseconds > 0, !refusing.isRetryScheduled else { return }
        refusing.isRetryScheduled = true
        serial.asyncAfter(deadline: .now() + .milliseconds(settings.retryMilliseconds)) { [weak self, weak store] in
            guard let self, let store else { return }
            refusing.isRetryScheduled = false
            tryAgain(store)
        }
    }

    /// Makes a segment and writes a first record into it, with all that has waited. Must be called on the writer's queue.
    func tryAgain(_ store: ResponseStore) {
        guard refusing.trouble != nil, waiting.withLock({ $0.isOurs }) else { return }
        let keyError = directory.saveKey()
        guard keyError == 0 else {
            return note(.noRoom(fault(Segment.WriteError(code: keyError, path: directory.path + "/key"))), store)
        }
        store.state.withLock { $0.statistics.canOpen = true }
        writeBuffer(store)
        active = nil
        if makeNewSegment(store), unwritten.isEmpty {
            for then in waiting.withLock({ $0.settle(0, isWritten: true) }) { then(true) }
        }
        if refusing.trouble != nil { scheduleRetry(store) }
    }

    /// `tryAgain` for other threads.
    func tryAgainNow(_ store: ResponseStore) { serial.sync { tryAgain(store) } }

    static func milliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
