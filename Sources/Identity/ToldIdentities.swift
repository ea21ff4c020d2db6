// What the upstream has said of whom credentials belong to (`credentials.identity.lookup`): asked once for each set of credentials, by all
// shards together.

import CachePolicy
import HTTPCore
import JSON
import Locking

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

    init(_ partition: [UInt8]?, ends: Int64, isDue: Bool, hash: [UInt8], now: Int64) {
        (self.partition, isCurrent, self.ends, self.isDue, self.hash) = (partition, partition != nil && now < ends, ends, isDue, hash)
    }
}

/// What asking came to.
public enum LookUpEnd: Sendable {
    case told(partition: [UInt8])
    /// It says that these are nobody's, or nothing that can be used.
    case nothing
    /// It could not be asked.
    case failed
}

public final class ToldIdentities: Sendable {
    private struct Entry {
        var partition: [UInt8]?
        var ends: Int64 = 0
        var askedAt: Int64
        var isAsking = true
    }

    private struct State {
        var entries = RecentlyUsed<Entry>(limit: ToldIdentities.limit)
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
            return ToldIdentity(entry.partition, ends: entry.ends, isDue: isDue(entry, now: now), hash: hash, now: now)
        }
    }

    /// Half-way to its end it is asked again, so that it need not end.
    private func isDue(_ entry: Entry, now: Int64) -> Bool {
        if entry.isAsking { return now - entry.askedAt > Self.patience }
        guard entry.partition != nil else { return now - entry.askedAt >= Self.pause }
        return now >= entry.ends - settings.keep / 2 && now - entry.askedAt >= min(Self.pause, settings.keep / 2)
    }

    /// Whether the caller is the one to ask.
    public func begin(_ hash: [UInt8], now: Int64) -> Bool {
        state.withLock { state in
            var entry = state.entries[hash]
            guard entry.map({ isDue($0, now: now) }) ?? true else { return false }
            entry = entry ?? Entry(askedAt: now)
            entry?.askedAt = now
            entry?.isAsking = true
            state.entries[hash] = entry
            return true
        }
    }

    public func end(_ hash: [UInt8], _ end: LookUpEnd, now: Int64) {
        state.withLock { state in
            var entry = state.entries[hash] ?? Entry(askedAt: now)
            entry.isAsking = false
            entry.askedAt = now
            switch end {
            case .told(let partition): (entry.partition, entry.ends) = (partition, now + settings.keep)
            case .nothing: entry.partition = nil
            // What was said before is the last that is known.
            case .failed: break
            }
            state.entries[hash] = entry
            state.counts[end.label, default: 0] += 1
        }
    }

    public var figures: (counts: [String: UInt64], remembered: Int) { state.withLock { ($0.counts, $0.entries.count) } }
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
