// What the upstream has said of whom credentials belong to (`credentials.identity.lookup`): asked once for each set of credentials, by all
// shards together. A session can change its user while its token stays the same, so a write with a token ends what was learned of it.

import CachePolicy
import HTTPCore
import JSON
import Locking
import Synchronization

/// What the operator says of it.
public struct LookUpSettings: Sendable, Equatable {
    /// What the upstream is asked for; empty where it is not asked.
    public var path = ""
    /// Places in its response, and fields of it, that together say who somebody is and what that user may do: JSON Pointers, and names.
    public var pointers: [String] = []
    public var fields: [String] = []
    /// How long what it said counts, in milliseconds.
    public var keep: Int64 = 600_000

    public init() {}

    /// The values of all those places, each with its length; nil where one is missing, empty, or no text, whole number or list of these.
    /// - Parameter content: whole, and not coded.
    public func values(status: Status, _ response: Fields, content: [UInt8]) -> [UInt8]? {
        guard status == 200, JSONTextChecker.check(content.span) == .valid, let canonical = CanonicalJSON.make(checked: content.span),
            let value = JSONValue(canonical)
        else { return nil }
        var parts: [UInt8] = []
        for pointer in pointers {
            guard let found = JSONPointer(pointer)?.value(in: value), Self.tells(found) else { return nil }
            CacheKey.appendPart(found.serialized(), to: &parts)
        }
        for name in fields {
            let lines = response.all(named: Array(name.utf8).span)
            guard !lines.isEmpty, lines.allSatisfy({ !$0.trimmed.isEmpty }) else { return nil }
            CacheKey.appendPart(Array(lines.map(\.trimmed).joined(separator: [UInt8(ascii: ",")])), to: &parts)
        }
        return parts.isEmpty ? nil : parts
    }

    private static func tells(_ value: JSONValue) -> Bool {
        switch value {
        case .string(let text): !text.isEmpty
        // RFC 7493 §2.2: beyond that, not even the upstream need have told two of them apart.
        case .integer(let number): number.magnitude < 1 << 53
        case .number: false
        case .array(let items): !items.isEmpty && items.allSatisfy { $0.array == nil && tells($0) }
        case .null, .bool, .object: false
        }
    }

    /// A longer response says nothing: going through it takes the loop's time.
    public static let contentLimitBytes = 16 << 10
}

/// The period in which a token is known to belong to one user.
final class IdentityTerm: Sendable {
    private let changes = Atomic(0)
    private let over = Atomic(false)
    /// Unsafe requests under way.
    private let writes = Atomic(0)

    /// Differs before and after every write.
    var number: Int { changes.load(ordering: .acquiring) }
    var isOver: Bool { over.load(ordering: .acquiring) }
    var isUsable: Bool { !isOver && writes.load(ordering: .acquiring) == 0 }

    func beginWrite() {
        writes.add(1, ordering: .acquiringAndReleasing)
        changes.add(1, ordering: .acquiringAndReleasing)
    }

    func endWrite() {
        changes.add(1, ordering: .acquiringAndReleasing)
        writes.subtract(1, ordering: .acquiringAndReleasing)
    }

    func end() {
        over.store(true, ordering: .releasing)
        changes.add(1, ordering: .acquiringAndReleasing)
    }
}

/// What is known of one request's credentials. A class, since it is handed on with every hit.
public final class ToldIdentity: Sendable {
    /// Of all those; nil where it is not known whom they belong to.
    public let partition: [UInt8]?
    /// Whether it still counts; else for a rescue alone.
    public let isCurrent: Bool
    /// Milliseconds since 1970.
    public let ends: Int64
    /// Whether the upstream should be asked.
    public let isDue: Bool
    /// Of the credentials.
    public let hash: [UInt8]
    /// nil if nothing is known.
    private let term: IdentityTerm?
    private let termNumber: Int

    init(_ partition: [UInt8]?, ends: Int64, isDue: Bool, hash: [UInt8], now: Int64, term: IdentityTerm? = nil) {
        (self.partition, isCurrent, self.ends, self.isDue, self.hash) = (partition, partition != nil && now < ends, ends, isDue, hash)
        (self.term, termNumber) = (term, term?.number ?? 0)
    }

    /// Whether no write with the token has begun since, and the token still belongs to the same user. Can be read on any thread.
    public var isUnchanged: Bool { term.map { $0.number == termNumber } ?? true }
}

/// What asking came to.
public enum LookUpEnd: Sendable {
    case told(partition: [UInt8])
    /// It says that these are nobody's, or nothing that can be used.
    case nothing
    /// It could not be asked.
    case failed
}

/// A look-up that was sent.
public struct StartedLookUp: Sendable {
    let hash: [UInt8]
    let term: IdentityTerm
    let termNumber: Int
}

public final class ToldIdentities: Sendable {
    private struct Entry {
        var partition: [UInt8]?
        var ends: Int64 = 0
        var askedAt: Int64
        var isAsking = true
        let token: [UInt8]
        /// Of the token; the entry counts as long as that is not over.
        var term: IdentityTerm
    }

    /// The table's reference to a term: a token that leaves the table could not be forgotten any more, so its term ends.
    private final class TermOwner: Sendable {
        let term = IdentityTerm()
        deinit { term.end() }
    }

    private struct State {
        /// By the hash of all credentials.
        var entries = RecentlyUsed<Entry>(limit: ToldIdentities.limit)
        /// By the hash of the token alone.
        var terms = RecentlyUsed<TermOwner>(limit: ToldIdentities.limit)
        /// Unsafe requests under way, by token. Bounded by the number of requests.
        var writes: [[UInt8]: Int] = [:]
        var counts: [String: UInt64] = [:]
    }

    /// All shards ask.
    private let state = Mutex(State())
    public let settings: LookUpSettings

    /// Twice as many are remembered at most.
    public static let limit = 4096
    /// What brought nothing is not tried again sooner: milliseconds.
    public static let pause: Int64 = 30_000
    /// An attempt that has not ended by then is none any more.
    private static let patience: Int64 = 300_000

    public init(_ settings: LookUpSettings) { self.settings = settings }

    /// - Parameters:
    ///   - hash: of all credentials of a request.
    ///   - now: milliseconds since 1970.
    public func find(_ hash: [UInt8], now: Int64) -> ToldIdentity {
        state.withLock { state in
            guard let entry = state.entries[hash] else { return ToldIdentity(nil, ends: 0, isDue: true, hash: hash, now: now) }
            let isDue = isDue(entry, now: now)
            // A token that is used stays in its table.
            _ = state.terms[entry.token]
            guard entry.term.isUsable else { return ToldIdentity(nil, ends: 0, isDue: isDue, hash: hash, now: now) }
            return ToldIdentity(entry.partition, ends: entry.ends, isDue: isDue, hash: hash, now: now, term: entry.term)
        }
    }

    /// Half-way to its end it is asked again, so that it need not end.
    private func isDue(_ entry: Entry, now: Int64) -> Bool {
        let isOver = entry.term.isOver
        if entry.isAsking, !isOver { return now - entry.askedAt > Self.patience }
        guard entry.partition != nil, !isOver else { return now - entry.askedAt >= Self.pause }
        return now >= entry.ends - settings.keep / 2 && now - entry.askedAt >= min(Self.pause, settings.keep / 2)
    }

    /// - Parameters:
    ///   - hash: of all credentials of a request.
    ///   - token: the hash of the one among them that carries the token or session.
    /// - Returns: nil if the caller is not the one to ask.
    public func begin(_ hash: [UInt8], token: [UInt8], now: Int64) -> StartedLookUp? {
        state.withLock { state in
            let former = state.entries[hash]
            guard former.map({ isDue($0, now: now) }) ?? true, state.writes[token] == nil else { return nil }
            let owner = state.terms[token].flatMap { $0.term.isOver ? nil : $0 } ?? TermOwner()
            state.terms[token] = owner
            var entry = former ?? Entry(askedAt: now, token: token, term: owner.term)
            // What was learned before a change counts no more.
            if entry.term !== owner.term { (entry.partition, entry.term) = (nil, owner.term) }
            (entry.askedAt, entry.isAsking) = (now, true)
            state.entries[hash] = entry
            return StartedLookUp(hash: hash, term: owner.term, termNumber: owner.term.number)
        }
    }

    public func end(_ lookUp: StartedLookUp, _ end: LookUpEnd, now: Int64) {
        state.withLock { state in
            state.counts[end.label, default: 0] += 1
            guard var entry = state.entries[lookUp.hash], entry.term === lookUp.term else { return }
            entry.isAsking = false
            entry.askedAt = now
            switch end {
            // The user may have changed since the upstream was asked.
            case .told where lookUp.term.number != lookUp.termNumber: break
            case .told(let partition): (entry.partition, entry.ends) = (partition, now + settings.keep)
            case .nothing: entry.partition = nil
            // What was said before is the last that is known.
            case .failed: break
            }
            state.entries[lookUp.hash] = entry
        }
    }

    public var figures: (counts: [String: UInt64], remembered: Int) { state.withLock { ($0.counts, $0.entries.count) } }

    // MARK: Tokens that change their user

    /// Forgets what was learned of these tokens.
    /// - Parameter tokens: their hashes.
    public func forget(_ tokens: [[UInt8]]) {
        state.withLock { state in
            for token in tokens { state.terms[token]?.term.end() }
        }
    }

    /// Until the write ends, what was learned of its tokens does not count, and nothing is learned of them.
    func beginWrite(with tokens: [[UInt8]]) {
        state.withLock { state in
            for token in tokens {
                state.writes[token, default: 0] += 1
                state.terms[token]?.term.beginWrite()
            }
        }
    }

    /// - Parameter isRejected: the upstream has refused the write, so no token has changed its user.
    func endWrite(with tokens: [[UInt8]], isRejected: Bool) {
        state.withLock { state in
            for token in tokens {
                let left = (state.writes[token] ?? 1) - 1
                state.writes[token] = left > 0 ? left : nil
                guard let term = state.terms[token]?.term else { continue }
                term.endWrite()
                if !isRejected { term.end() }
            }
        }
    }
}

/// An unsafe request under way. Its end, however it comes, is the end of what was learned of its tokens, unless the upstream has rejected it.
public final class IdentityWrite {
    private let tables: [ToldIdentities]
    private let tokens: [[UInt8]]
    public var isRejected = false

    /// - Parameter tokens: the hash of each credential of the request.
    public init(_ tokens: [[UInt8]], in tables: [ToldIdentities]) {
        (self.tokens, self.tables) = (tokens, tables)
        for table in tables { table.beginWrite(with: tokens) }
    }

    deinit { for table in tables { table.endWrite(with: tokens, isRejected: isRejected) } }
}

/// The tables of all APIs of a process: one API may let a token change its user that others know too.
public final class IdentityTables: Sendable {
    private struct Reference {
        weak var table: ToldIdentities?
    }

    /// Filled by reloads, read by all shards.
    private let references = Mutex<[Reference]>([])

    public init() {}

    public func add(_ tables: [ToldIdentities]) {
        references.withLock { references in
            references.removeAll { one in one.table == nil || tables.contains { $0 === one.table } }
            references += tables.map { Reference(table: $0) }
        }
    }

    public var all: [ToldIdentities] { references.withLock { $0.compactMap(\.table) } }
}

extension LookUpEnd {
    var label: String {
        switch self {
        case .told: "told"
        case .nothing: "nothing"
        case .failed: "failed"
        }
    }
}
