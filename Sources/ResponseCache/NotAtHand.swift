// Records that are not in memory: on disk, or in the fleet's shared store. A lookup on the event loop throws `NotAtHand` instead of
// waiting. The caller loads the record and looks up again, because the stored responses may have changed meanwhile.

import CacheStore

public enum NotAtHand: Error, Sendable {
    case onDisk(OnDisk)
    /// No stored response can be served without validation. The shared level performs this lookup.
    case shared(SharedLookUp)
}

extension ResponseCache {
    /// Maximum number of loads for one lookup: a record for the target, one for its variant, and a few marks. Beyond it, memory is so short
    /// that loaded records are evicted immediately; the lookup then waits for the disk.
    public static let readLimit = 8

    /// Loads a record into memory.
    /// - Parameter then: called once, on a thread of the store.
    public func bringIn(_ wanted: NotAtHand, then: @escaping @Sendable () -> Void) {
        switch wanted {
        case .onDisk(let wanted): store.bringIn(wanted, then: then)
        case .shared: then()
        }
    }

    /// Returns whether the content can be read without waiting. It may have been evicted from memory since it was found.
    public func isAtHand(_ found: FoundResponse) -> Bool { store.isInMemory(found.content, of: found.owner) }

    /// Loads the content into memory.
    /// - Parameter then: called once, on a thread of the store.
    public func bringIn(contentOf found: FoundResponse, then: @escaping @Sendable () -> Void) {
        store.bringIn(found.content, of: found.owner, then: then)
    }

    /// Runs a lookup that may wait for the disk.
    public func waiting<Result>(_ may: Bool = true, _ look: () throws(NotAtHand) -> Result) throws(NotAtHand) -> Result {
        guard may else { return try look() }
        let before = reading
        reading = .waiting
        defer { reading = before }
        return try look()
    }

    /// Runs a lookup that does not count as a use of the records.
    func looking<Result>(_ look: () -> Result) -> Result {
        let before = reading
        reading = .looking
        defer { reading = before }
        return look()
    }

    /// Returns the item stored under exactly this key; nil if there is none.
    func item(_ key: [UInt8]) throws(NotAtHand) -> StoredItem? {
        var basis = FindingBasis()
        return try item(key, &basis)
    }

    /// Returns the item stored under exactly this key, and adds it to the basis of a finding.
    func item(_ key: [UInt8], _ basis: inout FindingBasis) throws(NotAtHand) -> StoredItem? {
        switch reading {
        case .atHand:
            do throws(OnDisk) { return try store.lookUpInMemory(key.span, &basis.lookUps) } catch { throw .onDisk(error) }
        case .waiting: return store.lookUp(key.span, &basis.lookUps)
        case .looking:
            basis.lookUps.noteUnknown()
            return store.see(key.span).item
        }
    }

    /// Returns what must be loaded before the item under this key can be read; nil if it is in memory.
    func notAtHand(_ key: [UInt8]) -> NotAtHand? { store.onDisk(key).map { .onDisk($0) } }

    func firstNotAtHand(of keys: [[UInt8]]) -> NotAtHand? {
        for key in keys { if let wanted = notAtHand(key) { return wanted } }
        return nil
    }
}
