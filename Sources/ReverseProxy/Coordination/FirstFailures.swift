// Logs first failures: one line names the cause of the first failure of an upstream or a path, and the setting that helps. Another line
// follows when it succeeds again. `UpstreamHealth` logs scopes, which open after several failures.

import HTTPCore
import Logging
import Reactor
import Synchronization
import Upstream

/// Thread-safe; called by all shards. Times are milliseconds of the loops' clock.
public final class FirstFailures: Sendable {
    /// The last failure of an upstream.
    public struct Last: Sendable {
        public let cause: FailureCause
        /// Path without the query; nil if no connection was established.
        public let path: String?
        /// Names, issuer and validity of a refused certificate.
        public let certificate: String?
        public let at: Int64
        /// Whether the connection or path has succeeded again.
        public var isOver = false

        /// Cause with its details, for the log.
        var text: String { cause.text + (certificate.map { "; the certificate is \($0)" } ?? "") }
        /// Setting that helps, as the end of a sentence; empty if none does.
        var adviceClause: String { cause.advice.map { "; \($0.text)" } ?? "" }
    }

    /// Name of the API; empty if there is only one.
    private let api: String
    private let logger: Logger
    private let state = Reactor.Mutex(State())
    /// Copy of `FirstFailureTable.isTroubled`, so that successful requests skip the lock while nothing fails.
    private let isTroubled = Atomic(false)

    private struct State {
        var table = FirstFailureTable()
        var last: Last?
        var lastSubject: FirstFailureTable.Subject?
    }

    init(api: String, logger: Logger) { (self.api, self.logger) = (api, logger) }

    public var last: Last? { state.withLock { $0.last } }

    // MARK: Attempts

    /// Records that no connection was established.
    /// - Parameter certificate: names, issuer and validity of a refused certificate; otherwise nil.
    func noteUnreachable(_ error: UpstreamError, certificate: String?, now: Int64) {
        note(.address, .transfer(error), path: nil, certificate, now: now)
    }

    /// Records a failed request for this path.
    public func noteFailure(_ path: [UInt8], _ cause: FailureCause, now: Int64) {
        note(.path(path), cause, path: UpstreamHealth.text(path), nil, now: now)
    }

    private func note(_ subject: FirstFailureTable.Subject, _ cause: FailureCause, path: String?, _ certificate: String?, now: Int64) {
        let last = Last(cause: cause, path: path, certificate: certificate, at: now)
        let leftOut = state.withLock { state in
            isTroubled.store(true, ordering: .relaxed)
            (state.last, state.lastSubject) = (last, subject)
            return state.table.fail(subject, now: now)
        }
        guard let leftOut else { return }
        let what = path.map { "failed on \($0)" } ?? "could not be reached"
        logger.warning("\(subjectWords) \(what) (\(last.text))\(last.adviceClause)\(Self.more(leftOut))")
    }

    /// Records that a connection was established.
    func noteReached(now: Int64) {
        if wantsSuccesses { noteEnds(of: [.address], now: now) }
    }

    /// Records a good response.
    func noteSuccess(_ path: [UInt8], now: Int64) { noteEnds(of: [.address, .path(path)], now: now) }

    /// Whether successes have to be recorded. Callers check it before they copy the path.
    var wantsSuccesses: Bool { isTroubled.load(ordering: .relaxed) }

    private func noteEnds(of subjects: [FirstFailureTable.Subject], now: Int64) {
        let ends = state.withLock { state in
            let ends = subjects.compactMap { subject in state.table.succeed(subject, now: now).map { (subject, $0) } }
            if let last = state.lastSubject, subjects.contains(last) { state.last?.isOver = true }
            isTroubled.store(state.table.isTroubled, ordering: .relaxed)
            return ends
        }
        for (subject, ended) in ends {
            let what =
                if case .path(let path) = subject { "responds on \(UpstreamHealth.text(path)) again" } else { "can be reached again" }
            let failures = ended.failures == 1 ? "1 failure" : "\(ended.failures) failures"
            logger.notice("\(subjectWords) \(what), after \(failures) in \((ended.time + 999) / 1_000) s\(Self.more(ended.leftOut))")
        }
    }

    /// Suppresses the line about the end for a scope that has opened; `UpstreamHealth` logs its end.
    func noteOpened(_ scope: FailureMemory.Scope) {
        if case .key(let path) = scope { state.withLock { $0.table.suppressEndLine(of: .path(path)) } }
    }

    /// Suppresses the lines about all ends; `UpstreamHealth` logs the end of an outage once.
    func noteDown() { state.withLock { $0.table.suppressEndLines() } }

    private var subjectWords: String { "the upstream\(api.isEmpty ? "" : " of \(api)")" }

    private static func more(_ leftOut: Int) -> String { leftOut == 0 ? "" : " (\(leftOut) similar lines omitted)" }
}

/// Detects the first failure of each subject. Pure and bounded: when the table is full, failures of further subjects are counted and not
/// logged.
struct FirstFailureTable {
    enum Subject: Hashable {
        case address
        /// Path without the query, truncated.
        case path([UInt8])
    }

    struct Ended: Equatable {
        let failures: Int
        /// Milliseconds since the first failure.
        let time: Int64
        let leftOut: Int
    }

    private struct Entry {
        var failures = 0
        var since: Int64 = 0
        var failedAt: Int64 = 0
        var loggedAt: Int64?
        /// True if the log contains a line about the current episode, so that its end is logged too.
        var isLogged = false
        var isEndLogged = false

        var isFailing: Bool { failures > 0 }
    }

    /// Minimum time in milliseconds between two lines about the first failure of one subject.
    static let period: Int64 = 60_000
    static let limit = 512
    /// Milliseconds since the last failure after which a subject is forgotten, even without a success. Clients may never request it again.
    static let memory: Int64 = 600_000

    private var entries: [Subject: Entry] = [:]
    private var lines = LogAllowance()
    private var failing = 0
    private var sweptAt = Int64.min

    var isTroubled: Bool { failing > 0 }

    /// Returns the number of lines omitted before this one; nil if the failure is not logged.
    mutating func fail(_ subject: Subject, now: Int64) -> Int? {
        makeSpace(for: subject, now: now)
        // The address always gets an entry, because there is only one address.
        guard entries[subject] != nil || entries.count < Self.limit || subject == .address else {
            lines.leaveOut(subject.kind)
            return nil
        }
        var entry = entries[subject] ?? Entry()
        if !entry.isFailing {
            failing += 1
            (entry.since, entry.isEndLogged) = (now, false)
        }
        entry.failures += 1
        entry.failedAt = now
        defer { entries[subject] = entry }
        guard !entry.isLogged, entry.loggedAt.map({ now - $0 >= Self.period }) ?? true else { return nil }
        guard let leftOut = lines.take(subject.kind, now: now) else { return nil }
        (entry.isLogged, entry.loggedAt) = (true, now)
        return leftOut
    }

    /// Returns the end of an episode if it has to be logged; otherwise nil.
    mutating func succeed(_ subject: Subject, now: Int64) -> Ended? {
        if now - Self.period >= sweptAt { forget(olderThan: Self.memory, now: now) }
        guard var entry = entries[subject], entry.isFailing else { return nil }
        failing -= 1
        let (isReported, failures, since) = (entry.isLogged && !entry.isEndLogged, entry.failures, entry.since)
        (entry.failures, entry.isLogged) = (0, false)
        entries[subject] = entry
        guard isReported, let leftOut = lines.take(subject.kind, now: now) else { return nil }
        return Ended(failures: failures, time: now - since, leftOut: leftOut)
    }

    /// Suppresses the line about the end of the subject's current episode.
    mutating func suppressEndLine(of subject: Subject) { entries[subject]?.isEndLogged = true }

    mutating func suppressEndLines() {
        for subject in entries.keys { entries[subject]?.isEndLogged = true }
    }

    /// Removes old entries. Runs at most once a second, because it visits all entries.
    private mutating func makeSpace(for subject: Subject, now: Int64) {
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
    /// Kind of log lines to which one common rate limit applies.
    fileprivate var kind: FailureScopeKind {
        switch self {
        case .address: .address
        case .path: .key
        }
    }
}
