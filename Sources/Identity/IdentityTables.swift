// Unsafe requests whose tokens may get another user, and the tables of look-up results that they change.

import Reactor

/// An active unsafe request. Its end invalidates the results of its tokens, unless it had no effect.
public final class IdentityWrite {
    private let tables: [LookedUpIdentities]
    private let tokens: [[UInt8]]
    /// Whether the upstream has rejected the request, or never received it.
    public var isWithoutEffect = false

    /// - Parameter tokens: hash of each credential of the request.
    public init(_ tokens: [[UInt8]], in tables: [LookedUpIdentities]) {
        (self.tokens, self.tables) = (tokens, tables)
        for table in tables { table.beginWrite(with: tokens) }
    }

    /// Called if no response will arrive, although the upstream may still process the request.
    /// - Returns: whether the caller should keep this write active for a while. Too many active writes would need too much memory.
    public func noteLoss() -> Bool {
        for table in tables { table.noteLoss(ofWriteWith: tokens) }
        return tables.allSatisfy(\.mayKeepLostWrites)
    }

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
}
