// Learned facts about the contents of a store, independent of the API: the latest request time, and the paths with stored responses.

import CachePolicy
import CacheStore
import Dispatch
import HTTPCore
import Reactor

final class StoreMemory: Sendable {
    let times: StoredTimes
    let doubts: DoubtfulWrites
    let paths: StoredPaths

    /// - Parameter isInherited: whether another process still owns the store.
    init(store: ResponseStore, _ times: CausalTimes, isInherited: Bool) {
        self.times = StoredTimes(store: store, times, isInherited: isInherited)
        doubts = DoubtfulWrites(store: store)
        paths = StoredPaths(store: store, isInherited: isInherited)
    }
}

/// Persists the latest request time of all stored responses. After a restart with a clock that was set back, a write must not get an earlier
/// time than the responses that it invalidates.
final class StoredTimes: Sendable {
    private let store: ResponseStore
    private let times: CausalTimes
    /// Upper bound of the request times of stored responses, in milliseconds. Raised by the shards that store.
    private let bound: Mutex<Int64>

    /// Key of the record. No other key consists of this byte alone.
    static let key = [UInt8(ascii: "B")]
    /// Milliseconds by which the bound is raised at once, so that the record is written rarely. After a crash, times of writes may be
    /// ahead by this amount.
    private static let step: Int64 = 10_000

    /// - Parameter isInherited: whether another process still stores responses. `readAgain` then reads the record later.
    init(store: ResponseStore, _ times: CausalTimes, isInherited: Bool) {
        (self.store, self.times) = (store, times)
        let known = isInherited ? nil : ResponseCache.time(of: store.lookUp(Self.key.span))
        if let known { times.note(requestAt: known) }
        bound = Mutex(known?.milliseconds ?? .min)
    }

    /// Must be called before a response is stored: the record is written first.
    func note(_ requestTime: Timestamp) {
        times.note(requestAt: requestTime)
        bound.withLock { bound in
            guard requestTime.milliseconds > bound else { return }
            bound = requestTime.milliseconds + Self.step
            insert(bound)
        }
    }

    /// Reads the record again after another process has used the store.
    func readAgain() {
        guard let time = ResponseCache.time(of: store.lookUp(Self.key.span)) else { return }
        times.note(requestAt: time)
        bound.withLock { $0 = max($0, time.milliseconds) }
    }

    /// Resets the bound after everything was removed from the store.
    func forget() { bound.withLock { $0 = .min } }

    /// Writes the exact time before the store is closed in an orderly way, or handed over.
    func writeExactTime() {
        bound.withLock { bound in
            // Read under the lock, so that it includes all times noted before. A later time raises the bound again.
            guard let latest = times.latestRequest, latest.milliseconds < bound else { return }
            bound = latest.milliseconds
            insert(bound)
        }
    }

    private func insert(_ bound: Int64) {
        let metadata = StoredMetadata.invalidation(at: Timestamp(milliseconds: bound))
        store.insert(NewItem(key: Self.key, metadata: metadata, head: [], body: [], retention: .always))
    }
}

/// A Bloom filter of the paths and groups with stored responses. A write to any other path stores no mark, because many such marks (sixty
/// thousand, for example) would evict responses from a small store. `RecentMarks` covers responses in flight. Two hash functions and one
/// bit per value: no stored path is missed, and at most one in sixteen other paths is a false positive.
///
/// `@unchecked Sendable` because all mutable state is behind a mutex.
final class StoredPaths: @unchecked Sendable {
    private struct State {
        var words = [UInt64](repeating: 0, count: StoredPaths.bitCount / 64)
        var setBits = 0
        /// Number of times that the filter was rebuilt.
        var pass = 0
        /// Whether the filter covers the whole store.
        var isComplete = false
        /// Whether the store is being traversed.
        var isGoingThrough = false

        mutating func insert(_ hash: UInt64) {
            let bits = StoredPaths.bits(hash)
            for bit in [bits.first, bits.second] where words[bit / 64] & 1 << UInt64(bit % 64) == 0 {
                words[bit / 64] |= 1 << UInt64(bit % 64)
                setBits += 1
            }
        }
    }

    private let store: ResponseStore
    /// Written by the shards that store, read by those that process writes.
    private let state: Mutex<State>

    /// Number of bits: 256 KiB.
    private static let bitCount = 1 << 21
    /// Maximum number of set bits. Beyond it, false positives are too frequent and the filter is rebuilt.
    private static let setLimit = bitCount / 4
    /// Maximum number of entries for which the filter is used. In a larger store, all writes store marks: marks are small in comparison,
    /// and traversing the store would take long.
    private static let entryLimit = 1 << 17

    init(store: ResponseStore, isInherited: Bool) {
        self.store = store
        var state = State()
        state.isComplete = !isInherited && store.statistics.entries == 0
        self.state = Mutex(state)
        if !isInherited { rebuildFilter() }
    }

    private static func bits(_ hash: UInt64) -> (first: Int, second: Int) {
        (Int(hash % UInt64(bitCount)), Int((hash >> 32) % UInt64(bitCount)))
    }

    // MARK: Recording

    /// Must be called before a response is stored.
    /// - Parameters:
    ///   - key: the response's key.
    ///   - groups: keys of its groups' marks.
    /// - Returns: `pass`. If it changes before the response is stored, the caller must call this again.
    @discardableResult
    func note(_ key: [UInt8], groups: [[UInt8]]) -> Int {
        let hashes = [Self.hash(key)] + groups.map(Self.hash)
        let (isFull, pass) = state.withLock { state in
            for hash in hashes { state.insert(hash) }
            return (state.setBits > Self.setLimit && !state.isGoingThrough, state.pass)
        }
        if isFull { rebuildFilter() }
        return pass
    }

    /// Number of times that the filter was rebuilt.
    var pass: Int { state.withLock { $0.pass } }

    /// Returns whether a response that a mark affects may be stored.
    /// - Parameter mark: key of the mark.
    func mayHave(_ mark: [UInt8]) -> Bool {
        let hash = Self.hash(mark)
        let bits = Self.bits(hash)
        return state.withLock { state in
            !state.isComplete || [bits.first, bits.second].allSatisfy { state.words[$0 / 64] & 1 << UInt64($0 % 64) != 0 }
        }
    }

    /// Whether the filter covers the whole store. Until then, every path is assumed to be stored.
    var isComplete: Bool { state.withLock { $0.isComplete } }

    /// Hashes API and path of a key and ignores its other parts. A group's mark is hashed completely.
    private static func hash(_ key: [UInt8]) -> UInt64 {
        guard let (authority, path) = StoredKey.path(of: key) else { return ContentHash.number(of: key.span, seed: seed) }
        return ContentHash.number(of: path.span, seed: ContentHash.number(of: authority.span, seed: seed))
    }

    /// Secret, so that clients cannot choose paths with equal hashes.
    private static let seed = UInt64.random(in: .min ... .max)

    // MARK: Rebuilding

    /// Rebuilds the filter on a background thread. Until then, every path is assumed to be stored.
    func rebuildFilter() {
        let entries = store.statistics.entries
        let begins = state.withLock { state in
            guard !state.isComplete || state.setBits > Self.setLimit, !state.isGoingThrough else { return false }
            let isWorthwhile = entries <= Self.entryLimit
            // Responses stored from now on are recorded by the shards that store them.
            state = State(pass: state.pass + 1, isGoingThrough: isWorthwhile)
            return isWorthwhile
        }
        guard begins else { return }
        DispatchQueue.global(qos: .utility).async { [weak self] in
            guard let self else { return }
            store.visitAll { self.note($0) }
            state.withLock { ($0.isComplete, $0.isGoingThrough) = ($0.setBits <= Self.setLimit, false) }
        }
    }

    private func note(_ listed: ListedItem) {
        guard StoredMetadata.kind(of: listed.item.metadata.span) == .response, let metadata = StoredMetadata(listed.item.metadata.span)
        else {
            return
        }
        let key = Array(listed.key)
        var groups: [[UInt8]] = []
        if metadata.flags.contains(.hasGroups), let stored = StoredKey(key) {
            let name = stored.api == nil ? nil : stored.authority
            groups = (ResponseCache.groups(of: listed.item.head.span) ?? []).map { ResponseCache.groupKey($0, ofAPI: name) }
        }
        let hashes = [Self.hash(key)] + groups.map(Self.hash)
        state.withLock { state in for hash in hashes { state.insert(hash) } }
    }
}
