// The store goes from one process to the next (`ResponseStore+TakingOver`); what the caches remember beside it in memory comes to know of it.

import CachePolicy
import CacheStore
import TakeOver

/// What another process hands over of its store.
public typealias HandedCache = HandedStore

extension SharedCacheState {
    /// - Returns: nil where another process cannot be given it.
    public func offer() -> HandedCache? { store.offer() }

    public func pass(to successor: @escaping @Sendable (PassedChange) -> Void) -> HandedPosition { store.pass(to: successor) }

    public func goOn() { store.goOn() }

    /// Another process has it. What is stored counts as stale here.
    public func leave() { store.leave() }

    /// It is ours.
    /// - Parameter end: where the other process has left off.
    public func own(upTo end: HandedPosition) {
        store.own(upTo: end)
        storeMemory.times.readAgain()
        storeMemory.doubts.readAgain()
        storeMemory.paths.goThroughStore()
    }

    /// - Parameter peer: hears of what takes something back here; nil: nobody.
    public func tell(_ peer: (@Sendable (PassedChange) -> Void)?) { store.tell(peer) }

    /// What has changed in the other process changes here. What is under way here and was asked for before is not stored.
    public func follow(_ change: PassedChange) {
        switch change {
        case .item(let key, let metadata, let head, let body, let retention):
            follow(NewItem(key: key, metadata: metadata, head: head, body: body, retention: Retention(rawValue: retention) ?? .outlives))
        case .purge(let milliseconds):
            let time = Timestamp(milliseconds: milliseconds)
            times.note(markAt: time)
            purges.purged(at: times.ofMark(time))
        case .clearing: removeAll()
        case .removal, .staleMark, .staleAll: store.follow(change)
        }
    }

    /// A mark that is later than this one stays.
    private func follow(_ item: NewItem) {
        var item = item
        var time = item.metadata.withUnsafeBytes { ResponseCache.timeOfMark($0) }
        if let time, item.key == StoredTimes.key {
            storeMemory.times.follow(time)
        } else if let time, item.key == DoubtfulWrites.key {
            storeMemory.doubts.follow(time)
        } else if let told = time {
            times.note(markAt: told)
            // Requests that were sent here may have later times than the other process knows.
            let own = times.ofMark(told)
            item.metadata = StoredMetadata.invalidation(at: own)
            marks.note(item.key, at: own)
            time = own
        }
        if item.metadata.withUnsafeBytes(StoredMetadata.kind) == .searchVariance { varianceSign.set(in: store) }
        while true {
            let seen = store.see(item.key.span)
            if let time, let known = ResponseCache.time(of: seen.item), known >= time { return }
            if store.insert(item, ifStill: seen) != .changed { return }
        }
    }
}

extension ResponseCache {
    /// nil where it is no mark.
    fileprivate static func timeOfMark(_ metadata: UnsafeRawBufferPointer) -> Timestamp? {
        guard StoredMetadata.kind(of: metadata) == .invalidation else { return nil }
        return StoredMetadata.number(in: metadata).map { Timestamp(milliseconds: Int64(bitPattern: $0)) }
    }
}
