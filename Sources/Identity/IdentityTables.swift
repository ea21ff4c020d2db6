// Unsafe requests that may change the users of tokens, at this process or, as announced in the fleet's log, at other nodes.

import Reactor

/// An active unsafe request. Its end invalidates the results of its tokens, unless it had no effect. `@unchecked Sendable` because one event
/// loop sets `isWithoutEffect`; another thread only releases a write.
public final class IdentityWrite: @unchecked Sendable {
    private let tables: [LookedUpIdentities]
    /// Hash of each credential of the request.
    public let tokens: [[UInt8]]
    /// Whether the upstream has rejected the request, or never received it.
    public var isWithoutEffect = false

    /// Time in milliseconds for which the upstream may still process a write without a response.
    public static let lossMilliseconds: Int64 = 30_000

    public init(_ tokens: [[UInt8]], in tables: [LookedUpIdentities]) {
        (self.tokens, self.tables) = (tokens, tables)
        for table in tables { table.beginWrite(with: tokens) }
    }

    /// Called if no response will arrive, although the upstream may still process the request.
    /// - Parameter now: milliseconds of the monotonic clock.
    /// - Returns: tables for which the caller must call `endLosses` after `lossMilliseconds`.
    public func noteLoss(now: Int64) -> [LookedUpIdentities] { tables.filter { $0.noteLoss(ofWriteWith: tokens, now: now) } }

    deinit { for table in tables { table.endWrite(with: tokens, isWithoutEffect: isWithoutEffect) } }
}

/// The tables of all APIs of the process. A request at one API may change the user of a token that other APIs use too.
public final class IdentityTables: Sendable {
    private struct Reference {
        weak var table: LookedUpIdentities?
    }

    /// Changed by reloads, read by all shards.
    private let references = Mutex<[Reference]>([])

    public init() {}

    public func add(_ tables: [LookedUpIdentities]) {
        references.withLock { references in
            references.removeAll { one in one.table == nil || tables.contains { $0 === one.table } }
            references += tables.map { Reference(table: $0) }
        }
    }

    public var all: [LookedUpIdentities] { references.withLock { $0.compactMap(\.table) } }

    /// Invalidates results after a write at another node, as a write of this process does.
    /// - Parameters:
    ///   - tokens: hashes of the tokens of the write; nil if it may have had any token.
    ///   - isLost: whether the other node received no response, so that the upstream may still process the write.
    ///   - now: milliseconds of the monotonic clock.
    /// - Returns: tables for which the caller must call `endLosses` after `IdentityWrite.lossMilliseconds`.
    public func followWrite(with tokens: [[UInt8]]?, isLost: Bool, now: Int64) -> [LookedUpIdentities] {
        let tables = all
        guard let tokens else {
            for table in tables { table.endAll() }
            return []
        }
        let write = IdentityWrite(tokens, in: tables)
        return isLost ? write.noteLoss(now: now) : []
    }
}

/// Returns the start of the present period in which writes at other nodes are not seen, in milliseconds; nil if they are seen, or were seen
/// shortly before (`share.blind_limit`). Results may be used within one period only. May be called on any thread.
public typealias BlindPeriod = @Sendable () -> Int64?

/// The period in which a result was found.
struct FindingPeriod: Sendable {
    private let current: BlindPeriod
    let start: Int64?

    init(_ current: @escaping BlindPeriod) { (self.current, start) = (current, current()) }

    var isCurrent: Bool { current() == start }
}
