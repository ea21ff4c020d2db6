// Records that are not in memory: on disk, or in the fleet's shared store. A lookup on the event loop throws `NotInMemory` instead of
// waiting. The caller loads the record and looks up again, because the stored responses may have changed meanwhile.

import CacheStore
import HTTPCore

public enum NotInMemory: Error, Sendable {
    case onDisk(OnDisk)
    /// No stored response can be served without validation, so a lookup in the shared level is needed first.
    case fleet(FleetLookUp)
}

extension ResponseCache {
    /// Maximum number of loads for one lookup: a record for the target, one for its variant, and a few marks. Beyond it, loaded records
    /// are evicted before they can be used; the lookup then waits for the disk.
    public static let readLimit = 8

    /// Loads a record into memory.
    /// - Parameter then: called once, on a thread of the store.
    public func load(_ wanted: NotInMemory, then: @escaping @Sendable () -> Void) {
        switch wanted {
        case .onDisk(let wanted): store.load(wanted, then: then)
        case .fleet: then()
        }
    }

    /// Returns whether the content can be read without waiting. It may have been evicted from memory since the lookup.
    public func isInMemory(_ found: FoundResponse) -> Bool { store.isInMemory(found.content, of: found.owner, since: found.foundAt) }

    /// Loads the content into memory.
    /// - Parameter then: called once, on a thread of the store.
    public func load(contentOf found: FoundResponse, then: @escaping @Sendable () -> Void) {
        store.load(found.content, of: found.owner, then: then)
    }

    /// Runs a lookup that may wait for the disk.
    public func waiting<Result>(_ may: Bool = true, _ lookUp: () throws(NotInMemory) -> Result) throws(NotInMemory) -> Result {
        guard may else { return try lookUp() }
        let before = reading
        reading = .waiting
        defer { reading = before }
        return try lookUp()
    }

    /// Runs a lookup that does not count as a use of the records.
    func inspecting<Result>(_ lookUp: () -> Result) -> Result {
        let before = reading
        reading = .inspecting
        defer { reading = before }
        return lookUp()
    }
}
