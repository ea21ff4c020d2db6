// The log of first failures: as soon as an upstream cannot be reached, or a path fails, one line names the cause and the setting that helps,
// and one line follows when it responds again. That a scope counts as failing, which takes several failures, is told by `UpstreamHealth`.

import HTTPCore
import Locking
import Logging
import Synchronization
import Upstream

/// Called by all shards; guards itself. Times are milliseconds of the loops' clock.
public final class FirstFailures: Sendable {
    /// The last failure of an upstream, with a success since or not.
    public struct Last: Sendable {
        public let cause: FailureCause
        /// Without arguments; nil if no connection came about.
        public let path: String?
        /// Of a certificate that was refused.
        public let certificate: String?
        public let at: Int64
        /// The subject of the failure responds again.
        public var isOver = false
    }

    /// Where there are several APIs; else empty.
    private let api: String
    private let logger: Logger
    private let state = Locking.Mutex(State())
    /// Whether anything has failed and not responded since: a copy, so that a success takes no lock while all is well.
    private let isTroubled = Atomic(false)

    private struct State {
        var table = FirstFailureTable()
        var last: Last?
        var lastSubject: FirstFailureTable.Subject?
    }

    init(api: String, logger: Logger) { (self.api, self.logger) = (api, logger) }

    public var last: Last? { state.withLock { $0.last } }

    // MARK: What came of it

    /// No connection came about.
    /// - Parameter certificate: what the certificate says, if it was refused.
    func noteUnreachable(_ error: UpstreamError, certificate: String?, now: Int64) {
        note(.address, .transfer(error), path: nil, certificate, now: now)
    }

    /// A request on this path has failed.
    public func noteFailure(_ path: [UInt8], _ cause: FailureCause, now: Int64) {
        note(.path(path), cause, path: UpstreamHealth.text(path), nil, now: now)
    }

    private func note(_ subject: FirstFailureTable.Subject, _ cause: FailureCause, path: String?, _ certificate: String?, now: Int64) {
        let leftOut = state.withLock { state in
            isTroubled.store(true, ordering: .relaxed)
            (state.last, state.lastSubject) = (Last(cause: cause, path: path, certificate: certificate, at: now), subject)
            return state.table.fail(subject, now: now)
        }
        guard let leftOut else { return }
        let facts = certificate.map { "; the certificate is \($0)" } ?? ""
        let advice = cause.advice.map { "; \($0.text)" } ?? ""
        let what = path.map { "failed on \($0)" } ?? "could not be reached"
        logger.warning("\(subjectWords) \(what) (\(cause.text)\(facts))\(advice)\(Self.more(leftOut))")
    }

    /// A connection came about.
    func noteReached(now: Int64) {
        guard isTroubled.load(ordering: .relaxed) else { return }
        noteEnds(of: [.address], now: now)
    }

    /// A good response came.
    func noteSuccess(_ path: [UInt8], now: Int64) {
        guard isTroubled.load(ordering: .relaxed) else { return }
        noteEnds(of: [.address, .path(path)], now: now)
    }

    /// Whether a success has to be told: asked before its path is copied.
    var wantsSuccesses: Bool { isTroubled.load(ordering: .relaxed) }

    private func noteEnds(of subjects: [FirstFailureTable.Subject], now: Int64) {
        let ends = state.withLock { state in
            let ends = subjects.compactMap { subject in state.table.succeed(subject, now: now).map { (subject, $0) } }
            if let last = state.lastSubject, subjects.contains(last) { state.last?.isOver = true }
            isTroubled.store(state.table.isTroubled, ordering: .relaxed)
            return ends
        }
        for (subject, ended) in ends {
            let what = if case .path(let path) = subject { "responds on \(UpstreamHealth.text(path)) again" } else { "can be reached again" }
            let failures = ended.failures == 1 ? "1 failure" : "\(ended.failures) failures"
            logger.notice("\(subjectWords) \(what), after \(failures) in \((ended.time + 999) / 1_000) s\(Self.more(ended.leftOut))")
        }
    }

    /// A key fails as `UpstreamHealth` has it, which logs the end.
    func noteOpened(_ scope: FailureMemory.Scope) {
        if case .key(let path) = scope { state.withLock { $0.table.leaveEnd(of: .path(path)) } }
    }

    /// The upstream is down. `UpstreamHealth` logs that it is up again, once for all that failed.
    func noteDown() { state.withLock { $0.table.leaveEnds() } }

    private var subjectWords: String { "the upstream\(api.isEmpty ? "" : " of \(api)")" }

    private static func more(_ leftOut: Int) -> String { leftOut == 0 ? "" : " (\(leftOut) lines like this are left out)" }
}

/// Which failures are first ones, and are to be logged. Pure, and bounded: what finds no room is left out of the log, and counted.
struct FirstFailureTable {
    enum Subject: Hashable {
        case address
        /// Without arguments, and cut.
        case path([UInt8])
    }

    struct Ended: Equatable {
        let failures: Int
        /// Milliseconds since the first of them.
        let time: Int64
        let leftOut: Int
    }

    private struct Entry {
        var failures = 0
        var since: Int64 = 0
        var failedAt: Int64 = 0
        var loggedAt: Int64?
        /// The episode that goes on is in the log, and its end is to be.
        var isLogged = false
        var isEndTold = false

        var isFailing: Bool { failures > 0 }
    }

    /// Of one subject: a line for its first failure at most once in this time.
    static let period: Int64 = 60_000
    static let limit = 512
    /// What has not failed for so long is forgotten, with a success since or not: nobody may ask for it again.
    static let memory: Int64 = 600_000

    private var entries: [Subject: Entry] = [:]
    private var lines = LogAllowance()
    private var failing = 0
    private var sweptAt = Int64.min

    var isTroubled: Bool { failing > 0 }

    /// Returns how many lines were left out before this one; nil if nothing is to be logged.
    mutating func fail(_ subject: Subject, now: Int64) -> Int? {
        makeRoom(for: subject, now: now)
        // There is one address, and no number of paths takes its place.
        guard entries[subject] != nil || entries.count < Self.limit || subject == .address else {
            lines.leaveOut(subject.kind)
            return nil
        }
        var entry = entries[subject] ?? Entry()
        if !entry.isFailing {
            failing += 1
            (entry.since, entry.isEndTold) = (now, false)
        }
        entry.failures += 1
        entry.failedAt = now
        defer { entries[subject] = entry }
        guard !entry.isLogged, entry.loggedAt.map({ now - $0 >= Self.period }) ?? true else { return nil }
        guard let leftOut = lines.take(subject.kind, now: now) else { return nil }
        (entry.isLogged, entry.loggedAt) = (true, now)
        return leftOut
    }

    /// Returns what is to be logged; nil if nothing is.
    mutating func succeed(_ subject: Subject, now: Int64) -> Ended? {
        if now - Self.period >= sweptAt { forget(olderThan: Self.memory, now: now) }
        guard var entry = entries[subject], entry.isFailing else { return nil }
        failing -= 1
        let (isTold, failures, since) = (entry.isLogged && !entry.isEndTold, entry.failures, entry.since)
        (entry.failures, entry.isLogged) = (0, false)
        entries[subject] = entry
        guard isTold, let leftOut = lines.take(subject.kind, now: now) else { return nil }
        return Ended(failures: failures, time: now - since, leftOut: leftOut)
    }

    /// The end of what fails now is told elsewhere.
    mutating func leaveEnd(of subject: Subject) { entries[subject]?.isEndTold = true }

    mutating func leaveEnds() {
        for subject in entries.keys { entries[subject]?.isEndTold = true }
    }

    /// At most once a second, since it looks at all entries.
    private mutating func makeRoom(for subject: Subject, now: Int64) {
        guard entries[subject] == nil, entries.count >= Self.limit, now - 1_000 >= sweptAt else { return }
        forget(olderThan: Self.period, now: now)
    }

    private mutating func forget(olderThan age: Int64, now: Int64) {
        sweptAt = now
        entries = entries.filter { now - $0.value.failedAt < age }
        failing = entries.values.count { $0.isFailing }
    }
}

extension FirstFailureTable.Subject {
    /// By which lines of the log are limited.
    fileprivate var kind: FailureScopeKind {
        switch self {
        case .address: .address
        case .path: .key
        }
    }
}
