// The seam for what is not at hand: what lies on the disk only, and what other nodes may have stored. A look-up on a loop throws this instead of
// waiting; the caller has it brought in and looks again afterwards, since meanwhile anything may have happened to what is stored.

import CacheStore

public enum NotAtHand: Error, Sendable {
    case onDisk(OnDisk)
    /// Nothing that is stored here goes out unasked. Asked for by the level itself.
    case shared(SharedLookUp)
}

extension ResponseCache {
    /// A look-up needs a record for the target, one for its variant, and a few that say what is no longer valid. Beyond that the memory is
    /// so short that what was brought in is gone again: then the look-up itself waits.
    public static let readLimit = 8

    /// - Parameter then: called once, on a thread of the store's.
    public func bringIn(_ wanted: NotAtHand, then: @escaping @Sendable () -> Void) {
        switch wanted {
        case .onDisk(let wanted): store.bringIn(wanted, then: then)
        case .shared: then()
        }
    }

    /// Whether its content can be read without waiting: it may have been found a while ago.
    public func isAtHand(_ found: FoundResponse) -> Bool { store.isInMemory(found.content, of: found.owner) }

    /// - Parameter then: called once, on a thread of the store's.
    public func bringIn(contentOf found: FoundResponse, then: @escaping @Sendable () -> Void) {
        store.bringIn(found.content, of: found.owner, then: then)
    }

    /// Looks, for a while, as one who may wait.
    public func waiting<Result>(_ may: Bool = true, _ look: () throws(NotAtHand) -> Result) throws(NotAtHand) -> Result {
        guard may else { return try look() }
        let before = reading
        reading = .waiting
        defer { reading = before }
        return try look()
    }

    /// Looks, for a while, without using what is seen.
    func looking<Result>(_ look: () -> Result) -> Result {
        let before = reading
        reading = .looking
        defer { reading = before }
        return look()
    }

    /// What lies under exactly this key.
    func item(_ key: [UInt8]) throws(NotAtHand) -> StoredItem? {
        var basis = FindingBasis()
        return try item(key, &basis)
    }

    /// The same for a finding that goes by it.
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

    /// What would have to be brought in to see what lies under this key.
    func notAtHand(_ key: [UInt8]) -> NotAtHand? { store.onDisk(key).map { .onDisk($0) } }

    func firstNotAtHand(of keys: [[UInt8]]) -> NotAtHand? {
        for key in keys { if let wanted = notAtHand(key) { return wanted } }
        return nil
    }
}
