// The store goes from one process to the next (`ResponseStore+TakingOver`); what the caches remember beside it in memory comes to know of it.

import CachePolicy
import CacheStore
import TakeOver

/// What another process hands over of its store.
public typealias HandedCache = HandedStore

extension SharedCacheState {
    /// - Returns: nil where another process cannot be given it: then all is as before.
    public func hold() -> HandedCache? { store.hold() }

    public func goOn() { store.goOn() }

    public func pass(to successor: @escaping @Sendable (PassedChange) -> Void) { store.pass(to: successor) }

    /// Another process has it. What is stored counts as stale here.
    public func leave() { store.leave() }

    /// It is ours.
    public func own() { store.own() }

    /// What has changed in the other process changes here. What is under way here and was asked for before is not stored.
    public func follow(_ change: PassedChange) {
        if case .item(let key, let metadata, _, _, _) = change,
            let time = metadata.withUnsafeBytes({ ResponseCache.timeOfMark($0) })
        {
            marks.note(key, at: time)
        }
        store.follow(change)
    }
}

extension ResponseCache {
    /// nil where it is no mark.
    fileprivate static func timeOfMark(_ metadata: UnsafeRawBufferPointer) -> Timestamp? {
        guard StoredMetadata.kind(of: metadata) == .invalidation else { return nil }
        return StoredMetadata.number(in: metadata).map { Timestamp(milliseconds: Int64(bitPattern: $0)) }
    }
}
