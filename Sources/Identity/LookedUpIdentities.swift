// Identities that the upstream reports for credentials (`credentials.identity.lookup`). Each set of credentials is looked up once for all
// shards. A session may change its user while its token is unchanged, so an unsafe request with a token invalidates the identity.

import CachePolicy
import HTTPCore
import JSON
import Reactor
import Synchronization

public struct LookUpSettings: Sendable, Equatable {
    /// Path of the look-up request; empty to disable look-ups.
    public var path = ""
    /// JSON Pointers into the response, and names of its fields, which together identify the user and the user's rights.
    public var pointers: [String] = []
    public var fields: [String] = []
    /// How long a result is valid, in milliseconds.
    public var keep: Int64 = 600_000

    public init() {}

    /// Returns the selected values, each with its length; nil if one is missing, empty, or no text, integer or list of these.
    /// - Parameter content: the complete content, without a content coding.
    public func values(status: Status, _ response: Fields, content: [UInt8]) -> [UInt8]? {
        guard status == 200, JSONTextChecker.check(content.span) == .valid, let canonical = CanonicalJSON.make(checked: content.span),
            let value = JSONValue(canonical)
        else { return nil }
        var parts: [UInt8] = []
        for pointer in pointers {
            guard let found = JSONPointer(pointer)?.value(in: value), Self.isIdentifying(found) else { return nil }
            CacheKey.appendPart(found.serialized(), to: &parts)
        }
        for name in fields {
            let lines = response.all(named: Array(name.utf8).span)
            guard !lines.isEmpty, lines.allSatisfy({ !$0.trimmed.isEmpty }) else { return nil }
            CacheKey.appendPart(Array(lines.map(\.trimmed).joined(separator: [UInt8(ascii: ",")])), to: &parts)
        }
        return parts.isEmpty ? nil : parts
    }

    private static func isIdentifying(_ value: JSONValue) -> Bool {
        switch value {
        case .string(let text): !text.isEmpty
        // Larger integers are not interoperable (RFC 7493 §2.2), so the upstream itself may not distinguish them.
        case .integer(let number): number.magnitude < 1 << 53
        case .number: false
        case .array(let items): !items.isEmpty && items.allSatisfy { $0.array == nil && isIdentifying($0) }
        case .null, .bool, .object: false
        }
    }

    /// Maximum size of a response in bytes. Longer ones are ignored, because parsing them would occupy the loop.
    public static let contentLimitBytes = 16 << 10
}

/// Numbers the writes that have ended the terms of tokens. While the user of a request is unknown, its partition depends on the last number
/// of its tokens. So a session that gets another user has a new, empty partition.
private final class WriteNumbers: Sendable {
    /// Tokens share slots, so that memory is bounded. A write then gives the other tokens of its slot new partitions, too.
    private static let slots = 1 << 15
    /// `ofAll`: number of the last one that concerns all tokens.
    private let numbers = Mutex((last: UInt64(0), ofAll: UInt64(0), ofSlots: [UInt64](repeating: 0, count: WriteNumbers.slots)))
    /// Distinguishes this table. A new table, as after a restart, gives all credentials new partitions, because it does not know the writes
    /// before.
    let start = UInt64.random(in: .min ... .max)

    static func slot(of token: [UInt8]) -> Int { token.prefix(4).reduce(0) { $0 << 8 | Int($1) } % slots }

    /// Number of the last write with any of the tokens. It is higher than all numbers before that write, whatever other tokens a request
    /// has.
    func last(at slots: [Int]) -> UInt64 { numbers.withLock { numbers in slots.reduce(numbers.ofAll) { max($0, numbers.ofSlots[$1]) } } }

    func add(_ tokens: [[UInt8]]) {
        numbers.withLock { numbers in
            numbers.last += 1
            for token in tokens { numbers.ofSlots[Self.slot(of: token)] = numbers.last }
        }
    }

    /// Numbers a write that may have had any token.
    func addForAll() {
        numbers.withLock { numbers in
            numbers.last += 1
            numbers.ofAll = numbers.last
        }
    }
}

/// The number of the last write with a request's credentials, while their user is unknown. A later write makes it outdated.
private struct OwnTerm: Sendable {
    private let writes: WriteNumbers
    private let slots: [Int]
    private let number: UInt64

    init(_ writes: WriteNumbers, _ tokens: [[UInt8]]) {
        (self.writes, slots) = (writes, tokens.map(WriteNumbers.slot))
        number = writes.last(at: slots)
    }

    var isCurrent: Bool { writes.last(at: slots) == number }
    var bytes: [UInt8] { [writes.start, number].flatMap { number in withUnsafeBytes(of: number.littleEndian) { Array($0) } } }
}

/// The result of a look-up for one request's credentials. A class, because every hit passes it on.
public final class LookedUpIdentity: Sendable {
    /// The user's partition; nil if the user is unknown.
    public let partition: [UInt8]?
    /// Whether the result is still valid. Otherwise it may be used for a rescue only.
    public let isCurrent: Bool
    /// End of its validity, in milliseconds since 1970.
    public let ends: Int64
    /// Whether the caller should start a look-up.
    public let isDue: Bool
    /// Hash of the credentials.
    public let hash: [UInt8]
    /// Whether the user is unknown because an unsafe request may have changed it.
    public let isAfterWrite: Bool
    /// nil if there is no result.
    private let term: IdentityTerm?
    private let termNumber: Int
    /// nil if the user is known.
    private let ownTerm: OwnTerm?
    /// nil if there are no other nodes.
    private let period: FindingPeriod?

    init(
        _ partition: [UInt8]?, ends: Int64, isDue: Bool, hash: [UInt8], isAfterWrite: Bool = false, now: Int64, term: IdentityTerm? = nil,
        _ period: FindingPeriod?
    ) {
        self.period = period
        (self.partition, isCurrent, self.ends, self.isDue, self.hash) = (partition, partition != nil && now < ends, ends, isDue, hash)
        self.isAfterWrite = isAfterWrite
        (self.term, termNumber, ownTerm) = (term, term?.number ?? 0, nil)
    }

    fileprivate init(_ other: LookedUpIdentity, _ own: OwnTerm) {
        (partition, isCurrent, ends, isDue, hash) = (other.partition, other.isCurrent, other.ends, other.isDue, other.hash)
        (isAfterWrite, term, termNumber, ownTerm) = (other.isAfterWrite, other.term, other.termNumber, own)
        period = other.period
    }

    /// Whether no unsafe request with the token has begun since, and the token still belongs to that user. If the user is unknown: whether
    /// no such request has had an effect since. May be read on any thread.
    public var isUnchanged: Bool {
        term.map { $0.number == termNumber } ?? true && ownTerm?.isCurrent ?? true && period?.isCurrent ?? true
    }

    /// Returns the partition of the credentials themselves. It is used while the user is unknown.
    /// - Parameter credentials: hash of all credentials, with which the partition begins.
    public func ownPartition(_ credentials: [UInt8]) -> [UInt8] { credentials + (ownTerm?.bytes ?? []) }
}

public enum LookUpEnd: Sendable {
    case lookedUp(partition: [UInt8])
    /// The upstream gives the identity of this partition without the token too, so it identifies no user.
    case common(partition: [UInt8])
    /// The response names no user, or is not usable.
    case nothing
    /// The upstream could not be reached.
    case failed
}

public struct StartedLookUp: Sendable {
    let hash: [UInt8]
    let term: IdentityTerm
    let termNumber: Int
}

public final class LookedUpIdentities: Sendable {
    private struct Entry {
        var partition: [UInt8]?
        var ends: Int64 = 0
        var askedAt: Int64
        var isAsking = true
        /// Whether an unsafe request ended the former term, and the upstream has not answered since.
        var isAfterWrite = false
        /// Whether the last look-up gave an identity that the upstream gives without the token too.
        var isCommon = false
        let token: [UInt8]
        /// The token's term. The entry is valid until the term ends.
        var term: IdentityTerm
    }

    /// The table's reference to a term. When a token is removed from the table, its term ends, because it could no longer be invalidated.
    private final class TermOwner: Sendable {
        let term = IdentityTerm()
        deinit { term.end() }
    }

    private struct State {
        /// Entries by the hash of all credentials.
        var entries = RecentlyUsed<Entry>(limit: LookedUpIdentities.limit)
        /// Terms by the hash of the token alone.
        var terms = RecentlyUsed<TermOwner>(limit: LookedUpIdentities.limit)
        /// Number of active unsafe requests by token. Lost ones with a token count as one.
        var writes: [[UInt8]: Int] = [:]
        /// Time until which the upstream may process lost writes, by token: milliseconds of the monotonic clock. At most `limit`.
        var losses: [[UInt8]: Int64] = [:]
        /// Partitions of identities that the upstream gave without a token, each with the time until which it counts as common.
        var common = RecentlyUsed<Int64>(limit: 1024)
        var reportedAt: Int64?
        var counts: [String: UInt64] = [:]
        /// Start of the last period that a request has seen.
        var period: Int64?
    }

    /// Used by all shards.
    private let state = Mutex(State())
    private let writeNumbers = WriteNumbers()
    public let settings: LookUpSettings
    private let blindPeriod: BlindPeriod?

    /// Maximum number of recent entries. Up to twice as many are stored.
    public static let limit = 4096
    /// Minimum interval between look-ups after one without a result, in milliseconds.
    public static let pause: Int64 = 30_000
    /// Time in milliseconds after which an unfinished look-up counts as lost.
    private static let patience: Int64 = 300_000
    /// Time in milliseconds for which a common identity is not examined again. A failing upstream may give it with interruptions.
    static let commonFor: Int64 = 3_600_000
    /// Minimum interval between reports of common identities, in milliseconds.
    private static let reportPause: Int64 = 60_000

    /// - Parameter blindPeriod: nil if there are no other nodes.
    public init(_ settings: LookUpSettings, blindPeriod: BlindPeriod? = nil) { (self.settings, self.blindPeriod) = (settings, blindPeriod) }

    /// Returns the known result for a request.
    /// - Parameters:
    ///   - hash: hash of all credentials of the request.
    ///   - tokens: hashes of all credentials that may be its token. Used if the user is unknown.
    ///   - now: milliseconds since 1970.
    public func find(_ hash: [UInt8], tokens: @autoclosure () -> [[UInt8]], now: Int64) -> LookedUpIdentity {
        let known = find(hash, now: now)
        return known.isCurrent ? known : LookedUpIdentity(known, OwnTerm(writeNumbers, tokens()))
    }

    public func find(_ hash: [UInt8], now: Int64) -> LookedUpIdentity {
        let period = blindPeriod.map(FindingPeriod.init)
        return state.withLock { state in
            endBlindPeriod(period?.start, in: &state)
            guard let entry = state.entries[hash] else { return LookedUpIdentity(nil, ends: 0, isDue: true, hash: hash, now: now, period) }
            let isDue = isDue(entry, now: now)
            // After the clock was set back, the age of the result is unknown.
            let ends = isFromLater(entry, now: now) ? 0 : entry.ends
            // Marks the token as recently used.
            _ = state.terms[entry.token]
            let isAfterWrite = entry.isAfterWrite || entry.term.isOverByWrite || entry.term.hasWrites
            guard entry.term.isUsable else {
                return LookedUpIdentity(nil, ends: 0, isDue: isDue, hash: hash, isAfterWrite: isAfterWrite, now: now, period)
            }
            return LookedUpIdentity(
                entry.partition, ends: ends, isDue: isDue, hash: hash, isAfterWrite: isAfterWrite, now: now, term: entry.term, period)
        }
    }

    /// Whether the clock was set back after the last look-up. The clocks of the event loops differ by less than the tolerance.
    private func isFromLater(_ entry: Entry, now: Int64) -> Bool { now < entry.askedAt - 1_000 }

    /// Whether a look-up is due. A valid result is renewed after half of its validity, so that it does not expire. After a write it is due
    /// at once, however short ago the last one was.
    private func isDue(_ entry: Entry, now: Int64) -> Bool {
        if entry.term.isOverByWrite || isFromLater(entry, now: now) { return true }
        let isOver = entry.term.isOver
        if entry.isAsking, !isOver { return now - entry.askedAt > Self.patience }
        // Many upstreams give guests a common identity, so this is not repeated as often as a failure.
        if entry.partition == nil, entry.isCommon, !isOver { return now - entry.askedAt >= max(Self.pause, settings.keep / 2) }
        guard entry.partition != nil, !isOver else { return now - entry.askedAt >= Self.pause }
        return now >= entry.ends - settings.keep / 2 && now - entry.askedAt >= min(Self.pause, settings.keep / 2)
    }

    /// Starts a look-up.
    /// - Parameters:
    ///   - hash: hash of all credentials of the request.
    ///   - token: hash of the one that carries the token or session.
    /// - Returns: nil if no look-up is due, or another one is active.
    public func begin(_ hash: [UInt8], token: [UInt8], now: Int64) -> StartedLookUp? {
        state.withLock { state in
            let former = state.entries[hash]
            guard former.map({ isDue($0, now: now) }) ?? true, state.writes[token] == nil else { return nil }
            let owner = state.terms[token].flatMap { $0.term.isOver ? nil : $0 } ?? TermOwner()
            state.terms[token] = owner
            var entry = former ?? Entry(askedAt: now, token: token, term: owner.term)
            // Results of an earlier term are invalid.
            if entry.term !== owner.term {
                entry.isAfterWrite = entry.isAfterWrite || entry.term.isOverByWrite
                (entry.partition, entry.term) = (nil, owner.term)
            }
            if isFromLater(entry, now: now) { entry.ends = 0 }
            (entry.askedAt, entry.isAsking) = (now, true)
            state.entries[hash] = entry
            return StartedLookUp(hash: hash, term: owner.term, termNumber: owner.term.number)
        }
    }

    /// Whether a new result is known to depend on the token. A failing upstream may give all credentials the identity of a guest.
    /// - Returns: nil if the caller must request the path without the token.
    public func dependsOnToken(_ partition: [UInt8], _ lookUp: StartedLookUp, now: Int64) -> Bool? {
        state.withLock { state in
            if isCommon(partition, in: &state, now: now) { return false }
            guard let entry = state.entries[lookUp.hash], entry.term === lookUp.term, entry.partition == partition else { return nil }
            return true
        }
    }

    /// - Returns: whether to report a common identity.
    @discardableResult
    public func end(_ lookUp: StartedLookUp, _ end: LookUpEnd, now: Int64) -> Bool {
        state.withLock { state in
            var end = end
            // Another look-up has shown it meanwhile.
            if case .lookedUp(let partition) = end, isCommon(partition, in: &state, now: now) { end = .common(partition: partition) }
            state.counts[end.label, default: 0] += 1
            let isReported = note(end, in: &state, now: now)
            guard var entry = state.entries[lookUp.hash], entry.term === lookUp.term else { return isReported }
            entry.isAsking = false
            entry.askedAt = now
            switch end {
            // The user may have changed during the look-up, so another one is due.
            case .lookedUp where lookUp.term.number != lookUp.termNumber: entry.askedAt = now - Self.pause
            case .lookedUp(let partition):
                (entry.partition, entry.ends, entry.isAfterWrite, entry.isCommon) = (partition, now + settings.keep, false, false)
            // The former result remains for rescues, unless it is the common one.
            case .common:
                (entry.ends, entry.isAfterWrite, entry.isCommon) = (min(entry.ends, now), false, true)
                lookUp.term.change()
            case .nothing: (entry.partition, entry.isAfterWrite, entry.isCommon) = (nil, false, false)
            // The former result remains.
            case .failed: break
            }
            state.entries[lookUp.hash] = entry
            return isReported
        }
    }

    private func isCommon(_ partition: [UInt8], in state: inout State, now: Int64) -> Bool {
        state.common[partition].map { now < $0 } ?? false
    }

    /// Records a common identity, and ends the terms of all tokens with it.
    private func note(_ end: LookUpEnd, in state: inout State, now: Int64) -> Bool {
        guard case .common(let partition) = end else { return false }
        if isCommon(partition, in: &state, now: now) { return false }
        state.common[partition] = now + max(Self.commonFor, settings.keep)
        state.entries.update { entry in
            guard entry.partition == partition else { return entry }
            var entry = entry
            entry.partition = nil
            entry.term.end()
            return entry
        }
        guard state.reportedAt.map({ now - $0 >= Self.reportPause }) ?? true else { return false }
        state.reportedAt = now
        return true
    }

    public var figures: (counts: [String: UInt64], remembered: Int) { state.withLock { ($0.counts, $0.entries.count) } }

    // MARK: Restarts

    /// Length in bytes of the hashes in records of known users.
    private static let recordedBytes = 16

    /// Returns a record of each known user: the hashes of the credentials and of the token, and the partition. Omits tokens with active
    /// writes.
    public func remembered() -> [UInt8] {
        state.withLock { state in
            state.entries.all.reduce(into: []) { bytes, one in
                let (hash, entry) = one
                guard let partition = entry.partition, entry.term.isUsable, state.writes[entry.token] == nil else { return }
                let parts = [hash, entry.token, partition]
                if parts.allSatisfy({ $0.count == Self.recordedBytes }) { bytes += parts.joined() }
            }
        }
    }

    /// Adopts the records of a process that has stopped. Their results are used for rescues only, until the credentials are looked up.
    public func adopt(_ records: ArraySlice<UInt8>, now: Int64) {
        state.withLock { state in
            var rest = records
            while rest.count >= 3 * Self.recordedBytes {
                let parts = (0..<3).map { Array(rest.dropFirst($0 * Self.recordedBytes).prefix(Self.recordedBytes)) }
                rest = rest.dropFirst(3 * Self.recordedBytes)
                guard state.entries[parts[0]] == nil else { continue }
                let owner = state.terms[parts[1]] ?? TermOwner()
                state.terms[parts[1]] = owner
                state.entries[parts[0]] = Entry(
                    partition: parts[2], askedAt: now - Self.pause, isAsking: false, token: parts[1], term: owner.term)
            }
        }
    }

    // MARK: Changes of a token's user

    /// Invalidates the results of these tokens.
    /// - Parameter tokens: hashes of the tokens.
    public func forget(_ tokens: [[UInt8]]) {
        state.withLock { state in
            for token in tokens { state.terms[token]?.term.end() }
        }
    }

    /// Invalidates the results of all tokens: a write that was not seen may have changed their users.
    func endAll() { state.withLock { endAll(in: &$0) } }

    private func endAll(in state: inout State) {
        for one in state.terms.all { one.value.term.end() }
        writeNumbers.addForAll()
    }

    private func endBlindPeriod(_ start: Int64?, in state: inout State) {
        guard start != state.period else { return }
        state.period = start
        if start != nil { endAll(in: &state) }
    }

    /// Begins an unsafe request. Until its end, results of its tokens are not valid, and no look-ups are started for them.
    func beginWrite(with tokens: [[UInt8]]) {
        state.withLock { state in
            for token in tokens { Self.beginWrite(with: token, in: &state) }
        }
    }

    private static func beginWrite(with token: [UInt8], in state: inout State) {
        state.writes[token, default: 0] += 1
        state.terms[token]?.term.beginWrite()
    }

    /// - Parameter isWithoutEffect: whether the upstream rejected or never received the request, so no token has changed its user.
    func endWrite(with tokens: [[UInt8]], isWithoutEffect: Bool) {
        state.withLock { endWrite(with: tokens, isWithoutEffect: isWithoutEffect, in: &$0) }
    }

    private func endWrite(with tokens: [[UInt8]], isWithoutEffect: Bool, in state: inout State) {
        for token in tokens {
            let left = (state.writes[token] ?? 1) - 1
            state.writes[token] = left > 0 ? left : nil
            state.terms[token]?.term.endWrite(isWithoutEffect: isWithoutEffect)
        }
        if !isWithoutEffect { writeNumbers.add(tokens) }
    }

    /// Keeps the tokens of a lost write suspended until `endLosses`. A token has one record, however many writes are lost.
    /// - Returns: whether this is the first record, so that the caller must call `endLosses`.
    func noteLoss(ofWriteWith tokens: [[UInt8]], now: Int64) -> Bool {
        state.withLock { state in
            let isFirst = state.losses.isEmpty
            for token in tokens where state.losses[token] != nil || state.losses.count < Self.limit {
                let former = state.losses.updateValue(now + IdentityWrite.lossMilliseconds, forKey: token)
                if former == nil { Self.beginWrite(with: token, in: &state) }
            }
            return isFirst && !state.losses.isEmpty
        }
    }

    /// Ends the suspension of each token whose time has passed. Its term ends too, because the upstream may have processed the write late.
    /// - Parameter now: milliseconds of the monotonic clock.
    /// - Returns: milliseconds until the next call; nil if no token is left.
    public func endLosses(now: Int64) -> Int64? {
        state.withLock { state in
            let ended = state.losses.filter { $0.value <= now }.map(\.key)
            for token in ended { state.losses[token] = nil }
            endWrite(with: ended, isWithoutEffect: false, in: &state)
            // Many tokens with different times are ended together.
            return state.losses.values.min().map { max(1_000, $0 - now) }
        }
    }

    var lostTokens: Int { state.withLock { $0.losses.count } }
}

extension LookUpEnd {
    var label: String {
        switch self {
        case .lookedUp: "told"
        case .common: "common"
        case .nothing: "nothing"
        case .failed: "failed"
        }
    }
}
