// The selection of an administrator's purge, and its first step; `CacheGroup` performs the other steps. Responses requested before a purge
// are not stored (`PurgeClock`). A statement that a purged resource is gone is removed too.

import CachePolicy
import CacheStore
import TakeOver

public enum PurgeSelection: Sendable {
    case id(EntryID)
    case all
    case selection(EntrySelection)

    /// The selected entries, unless an id is selected.
    var entries: EntrySelection {
        switch self {
        case .id, .all: EntrySelection()
        case .selection(let selection): selection
        }
    }
}

/// Responses whose bytes were erased from the disk.
public struct ErasedResponses: Sendable {
    /// Replaced segment files, and bytes of the erased records.
    public let files: Int
    public let bytes: Int
    /// Replaced files that are still in use, because responses are being sent from them. Their bytes are freed when that ends.
    public let inUse: Int

    init(_ erased: ErasedFiles) { (files, bytes, inUse) = (erased.files, erased.bytes, erased.inUse) }
}

public struct EraseFailure: Error, Sendable {
    /// Text such as `the cache directory is not writable`.
    public let sentence: String
}

extension ResponseCache {
    /// From now on, responses requested earlier are not stored, so that a fetch in flight does not restore a purged response. A thread
    /// that has already checked the clock may still be storing. So each thread must complete its current event between this call and the
    /// purge.
    public func beginPurge(at now: Timestamp) {
        let time = state.times.ofMark(now)
        state.purges.purged(at: time)
        state.store.sendToPeer(.purge(milliseconds: time.milliseconds))
    }
}
