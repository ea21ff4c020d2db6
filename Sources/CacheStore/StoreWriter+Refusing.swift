// The writer's behavior while the disk refuses writes. The store rejects new items at once, and the writer retries at intervals. The state
// ends only when a record has been written.

import CSystem
import Dispatch
import Glibc
import Reactor

extension StoreWriter {
    enum Trouble {
        /// No segment could be created. Small records may still be appended to the last segment, but that does not count as a recovery.
        case noSpace(WriteFault)
        case failedWrite(WriteFault)

        var fault: WriteFault {
            switch self {
            case .noSpace(let fault), .failedWrite(let fault): fault
            }
        }

        var isFailedWrite: Bool { if case .failedWrite = self { true } else { false } }
    }

    struct RefusingState {
        var trouble: Trouble?
        /// Number of failed attempts.
        var failures = 0
        /// True if the oldest segment was evicted for a new one that could not be created. No more segments are evicted until there is
        /// space.
        var evictedWithoutSuccess = false
        /// Maximum record size if the free space is unknown; nil if no record was refused for its size.
        var recordLimit: Int?
        /// Start of the refusal, in milliseconds of the monotonic clock.
        var since: Int64 = 0
        /// Time of the last reported failure; nil for never.
        var loggedAt: Int64?
        /// Whether a failure was reported, so that the recovery is reported too.
        var isLogged = false
        var limitLoggedAt: Int64?
        var spaceCheckedAt: Int64 = 0
        var isRetryScheduled = false
    }

    /// Minimum interval between reports of a failure, in milliseconds.
    static let logIntervalMilliseconds: Int64 = 60_000
    static let limitLogIntervalMilliseconds: Int64 = 3_600_000

    func fault(_ error: Segment.WriteError) -> WriteFault {
        WriteFault(error.code, path: error.path, diskSpace: error.code == ENOSPC ? settings.diskSpace(settings.directory) : nil)
    }

    /// Describes an error of creating the next segment.
    func fault(_ code: Int32) -> WriteFault {
        fault(Segment.WriteError(code: code, path: Segment.path(position.segment + 1, settings.directory)))
    }

    /// Records the result of a write attempt and reports it.
    /// - Parameter trouble: nil if the disk accepted a write.
    func note(_ trouble: Trouble?, _ store: ResponseStore) {
        let (wall, now) = (settings.now(), Self.milliseconds(CLOCK_MONOTONIC))
        let former = refusing.trouble
        refusing.trouble = trouble
        guard let trouble else {
            store.state.withLock { $0.statistics.accept(at: wall) }
            if let former, refusing.isLogged { settings.whenWriting?(.recovered(former.fault, seconds: (now - refusing.since) / 1_000)) }
            refusing.isLogged = false
            return
        }
        refusing.failures += 1
        if former == nil { refusing.since = now }
        store.state.withLock { state in
            state.statistics.count(trouble.fault)
            state.statistics.refuse(trouble.fault, at: wall)
        }
        if refusing.loggedAt.map({ now - $0 >= Self.logIntervalMilliseconds }) ?? true {
            (refusing.loggedAt, refusing.isLogged) = (now, true)
            settings.whenWriting?(.failing(trouble.fault, seconds: (now - refusing.since) / 1_000))
        }
        scheduleRetry(store)
    }

    /// Reports that the disk has less space than the configured size.
    /// - Parameter size: size of the next segment in bytes.
    func noteLimit(beside size: Int, _ store: ResponseStore) {
        let usableBytes = store.state.withLock { state in
            state.statistics.usableBytes = min(state.statistics.usableBytes, state.segments.bytes + size)
            return state.statistics.usableBytes
        }
        let now = Self.milliseconds(CLOCK_MONOTONIC)
        guard refusing.limitLoggedAt.map({ now - $0 >= Self.limitLogIntervalMilliseconds }) ?? true else { return }
        refusing.limitLoggedAt = now
        settings.whenWriting?(.limited(usableBytes: usableBytes))
    }

    /// Starts in the refusing state, because the directory could not be opened for writing, and schedules a retry.
    func refuse(_ fault: WriteFault, _ store: ResponseStore) {
        serial.sync {
            (refusing.trouble, refusing.isLogged, refusing.since) = (.noSpace(fault), true, Self.milliseconds(CLOCK_MONOTONIC))
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

    /// Creates a segment and writes a first record and all waiting work into it. Must be called on the writer's queue.
    func tryAgain(_ store: ResponseStore) {
        guard refusing.trouble != nil, waiting.withLock({ $0.isOurs }) else { return }
        let keyError = directory.restore()
        guard keyError == 0 else {
            return note(.noSpace(fault(Segment.WriteError(code: keyError, path: directory.path + "/key"))), store)
        }
        store.state.withLock { $0.statistics.canOpen = true }
        writeBuffer(store)
        active = nil
        if makeNewSegment(store), unwritten.isEmpty {
            for then in waiting.withLock({ $0.settle(0, isWritten: true) }) { then(true) }
        }
        if refusing.trouble != nil { scheduleRetry(store) }
    }

    /// Calls `tryAgain` from another thread and waits for it.
    func tryAgainNow(_ store: ResponseStore) { serial.sync { tryAgain(store) } }

    static func milliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
