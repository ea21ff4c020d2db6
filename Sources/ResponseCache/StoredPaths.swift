// Which paths and groups something may be stored for. A write to any other path leaves no mark in the store: sixty thousand such marks would push copies out of a
// small one. What is under way meanwhile is the matter of `RecentMarks`. Two hash functions and one bit for each value: a path is never missed, and one in sixteen others is
// taken for stored at most.

import CachePolicy
import CacheStore
import Dispatch
import HTTPCore
import Locking

/// `@unchecked Sendable` because all that changes is behind its mutex.
final class StoredPaths: @unchecked Sendable {
    private struct State {
        var words = [UInt64](repeating: 0, count: StoredPaths.bitCount / 64)
        var setBits = 0
        /// Counts how often all was noted anew.
        var pass = 0
        /// Whether all that is stored has been noted.
        var isComplete = false
        /// Whether the store is being gone through.
        var isGoingThrough = false

        mutating func insert(_ hash: UInt64) {
            for bit in StoredPaths.bits(hash) where words[bit / 64] & 1 << UInt64(bit % 64) == 0 {
                words[bit / 64] |= 1 << UInt64(bit % 64)
                setBits += 1
            }
        }
    }

    private let store: ResponseStore
    /// Set by those that store, read by those that see writes.
    private let state: Mutex<State>

    /// 256 KiB.
    private static let bitCount = 1 << 21
    /// Beyond it too many paths would be taken for stored: all is noted anew.
    private static let setLimit = bitCount / 4
    /// In a store with more entries all writes leave marks: they are small beside it, and going through it would take long.
    private static let entryLimit = 1 << 17

    init(store: ResponseStore, isHanded: Bool) {
        self.store = store
        var state = State()
        state.isComplete = !isHanded && store.statistics.entries == 0
        self.state = Mutex(state)
        if !isHanded { goThroughStore() }
    }

    private static func bits(_ hash: UInt64) -> [Int] { [Int(hash % UInt64(bitCount)), Int((hash >> 32) % UInt64(bitCount))] }

    // MARK: What is stored

    /// Called before a response is put into the store.
    /// - Parameters:
    ///   - key: its own.
    ///   - groups: the keys of its groups' marks.
    /// - Returns: `pass`. Where that is another once the response is in the store, it is noted again.
    @discardableResult
    func note(_ key: [UInt8], groups: [[UInt8]]) -> Int {
        let hashes = Self.hashes(key, groups)
        let (isFull, pass) = state.withLock { state in
            for hash in hashes { state.insert(hash) }
            return (state.setBits > Self.setLimit && !state.isGoingThrough, state.pass)
        }
        if isFull { goThroughStore() }
        return pass
    }

    /// Counts how often all was noted anew.
    var pass: Int { state.withLock { $0.pass } }

    /// Whether something may be stored that a mark concerns.
    /// - Parameter mark: the mark's key.
    func mayHave(_ mark: [UInt8]) -> Bool {
        let hash = Self.hash(mark)
        return state.withLock { state in
            !state.isComplete || Self.bits(hash).allSatisfy { state.words[$0 / 64] & 1 << UInt64($0 % 64) != 0 }
        }
    }

    /// Whether nothing is taken for stored only because the store has not been gone through.
    var isComplete: Bool { state.withLock { $0.isComplete } }

    /// Without what a key holds beside path and API. A group's mark stands for itself.
    private static func hash(_ key: [UInt8]) -> UInt64 {
        var hasher = Hasher()
        if let (authority, path) = StoredKey.path(of: key) {
            for part in [authority, path] {
                hasher.combine(part.count)
                part.withUnsafeBytes { hasher.combine(bytes: $0) }
            }
        } else {
            key.withUnsafeBytes { hasher.combine(bytes: $0) }
        }
        return UInt64(truncatingIfNeeded: hasher.finalize())
    }

    private static func hashes(_ key: [UInt8], _ groups: [[UInt8]]) -> [UInt64] { [hash(key)] + groups.map(hash) }

    // MARK: Going through the store

    /// Notes all that is stored anew, on a thread of its own. Until then each path is taken for stored.
    func goThroughStore() {
        let entries = store.statistics.entries
        let begins = state.withLock { state in
            guard !state.isComplete || state.setBits > Self.setLimit, !state.isGoingThrough else { return false }
            let isWorthwhile = entries <= Self.entryLimit
            // What is stored from now on is noted by who stores it.
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
        guard StoredMetadata.kind(of: listed.item.metadata) == .response, let metadata = StoredMetadata(listed.item.metadata) else {
            return
        }
        let key = Array(listed.key)
        var groups: [[UInt8]] = []
        if metadata.flags.contains(.hasGroups), let stored = StoredKey(key) {
            let name = stored.api == nil ? nil : stored.authority
            groups = (ResponseCache.groups(of: listed.item.head) ?? []).map { ResponseCache.groupKey($0, ofAPI: name) }
        }
        let hashes = Self.hashes(key, groups)
        state.withLock { state in for hash in hashes { state.insert(hash) } }
    }
}
