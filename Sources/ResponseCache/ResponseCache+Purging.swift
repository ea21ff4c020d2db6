// What an administrator's purge means, and its beginning; it is done by `CacheGroup`. What was asked for before a purge may be what was purged, so it
// is not stored (`PurgeClock`); and what says that a copy is gone goes with it.

import CachePolicy
import CacheStore
import TakeOver

public enum PurgeSelection: Sendable {
    case id(EntryID)
    case all
    case selection(EntrySelection)

    /// Without an id: which entries are meant.
    var entries: EntrySelection {
        switch self {
        case .id, .all: EntrySelection()
        case .selection(let selection): selection
        }
    }
}

extension ResponseCache {
    /// From now on nothing is stored that was asked for until then: a fetch that is under way must not bring back what is about to be taken out.
    /// A thread that has looked at the clock before may be storing. So between this and the purge each of them does something else once.
    public func beginPurge(at now: Timestamp) {
        let time = shared.times.ofMark(now)
        shared.purges.purged(at: time)
        shared.store.tell(.purge(milliseconds: time.milliseconds))
    }
}
