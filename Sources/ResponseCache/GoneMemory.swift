// What is gone stays gone: the last definite response of a well upstream counts, also when it is a 410, or a 404 in JSON. It lies beside the copy,
// which stays, and goes out in its place while the upstream fails. Any later 200 or 304 lifts it; a purge takes both. A 404 without content, or
// in HTML or text, may be a proxy's and is not believed; nor is a crowd of them (`GoneWatch`). HEAD says nothing here: its response has no
// content to believe, or to serve.

import CachePolicy
import CacheStore
import HTTPCore
import Hashing
import Locking

/// Shared by all shards; off the path of a hit.
public final class GoneMemory: Sendable {
    public enum Event: Int, CaseIterable {
        case remembered, served, lifted, disbelieved
        /// Remembered, and not among those that are lifted if a crowd of 404 turns out not to be believed: too many were.
        case unwatched
    }

    private let store: ResponseStore
    private let state: Mutex<State>

    private struct State {
        var watch: GoneWatch
        var changes: ChangeWatch
        var recent: RecentGone
        var counts = [Int](repeating: 0, count: Event.allCases.count)
    }

    /// - Parameter window: milliseconds (`failure.window`).
    init(store: ResponseStore, window: Int64) {
        self.store = store
        state = Mutex(State(watch: GoneWatch(window: window), changes: ChangeWatch(window: window), recent: RecentGone(window: window)))
    }

    /// By the name of the event.
    public var counts: [(event: String, count: Int)] {
        let counts = state.withLock { $0.counts }
        return Event.allCases.map { ("\($0)", counts[$0.rawValue]) }
    }

    public func count(_ event: Event) { state.withLock { $0.counts[event.rawValue] += 1 } }

    // MARK: What the upstream says

    /// A 404 for what there is a copy of.
    /// - Parameters:
    ///   - key: the copy's.
    ///   - user: a number for the one who has asked.
    ///   - now: milliseconds of the loop's clock.
    func missing(_ key: [UInt8], by user: UInt64, now: Int64) -> GoneVerdict {
        let number = Self.number(key)
        let (verdict, lifted) = state.withLock { state in
            let verdict = state.watch.missing(number, by: user, now: now)
            guard verdict == .routesLost else { return (verdict, [[UInt8]]()) }
            let watch = state.watch
            let lifted = state.recent.take(now: now) { watch.isDistrusted($0, now: now) }
            state.counts[Event.disbelieved.rawValue] += 1
            state.counts[Event.lifted.rawValue] += lifted.count
            return (verdict, lifted)
        }
        for key in lifted { store.remove(key.span) }
        return verdict
    }

    /// A redirect to elsewhere, or no content, where there is a copy.
    /// - Returns: whether that has been so for so long that it is believed.
    func changed(_ key: [UInt8], now: Int64) -> Bool {
        let number = Self.number(key)
        return state.withLock { $0.changes.changed(number, now: now) }
    }

    /// The upstream has failed at what there is a copy of.
    func failed(_ key: [UInt8]) {
        let number = Self.number(key)
        state.withLock { $0.changes.failed(number) }
    }

    /// A 200 or 304 to a request of that place in time, for what there is a copy of: what was remembered before it is lifted.
    func found(_ key: [UInt8], _ recency: Recency, now: Int64) {
        let number = Self.number(key)
        state.withLock { state in
            state.watch.found(number, now: now)
            state.changes.found(number)
        }
        lift(key, by: recency)
    }

    /// A later response has taken the copy's place. Where what was remembered is on the disk only, a thread that may wait does it, a little later.
    func lift(_ key: [UInt8], by recency: Recency) {
        do throws(OnDisk) {
            try lift(key, by: recency) { (key) throws(OnDisk) in try store.lookUpInMemory(key.span) }
        } catch {
            store.bringIn(error) { [self] in lift(key, by: recency) { [store] in store.lookUp($0.span) } }
        }
    }

    private func lift<Failure: Error>(
        _ key: [UInt8], by recency: Recency, _ lookUp: ([UInt8]) throws(Failure) -> StoredItem?
    ) throws(Failure) {
        guard let gone = Self.gone(in: try lookUp(Self.key(key)), key), !gone.metadata.recency.isLater(than: recency) else { return }
        let key = gone.key
        // Others may have found it at the same moment.
        if store.remove(key.span, ifStill: gone.written) { count(.lifted) }
    }

    /// Returns whether it was remembered.
    /// - Parameter isCertain: no crowd of others lifts it: a 410, which a gateway that has lost its routes never sends, and what was imported.
    func remember(_ new: NewResponse, beside key: [UInt8], isCertain: Bool, now: Int64) -> Bool {
        let gone = Self.key(key)
        let item = NewItem(
            key: gone, metadata: new.metadata.encoded(as: .gone), head: new.head, body: new.body, wantedCoding: new.wantedCoding,
            retention: .mayRescue)
        guard store.insert(item) == .accepted else { return false }
        state.withLock { state in
            state.counts[Event.remembered.rawValue] += 1
            if !isCertain { state.counts[Event.unwatched.rawValue] += state.recent.add(gone, of: Self.number(key), now: now) }
        }
        return true
    }

    /// What an item beside a copy says; nil where it is another one.
    /// - Parameter key: the copy's.
    static func gone(in item: StoredItem?, _ key: [UInt8]) -> FoundResponse? {
        guard let item, let metadata = ResponseCache.metadata(of: item, as: .gone) else { return nil }
        return FoundResponse(item: item, metadata: metadata, key: Self.key(key))
    }

    /// Beside the copy's whole key, so for its variant and its partition alone.
    static func key(_ key: [UInt8]) -> [UInt8] { key.followed(by: UInt8(ascii: "X")) }

    private static func number(_ key: [UInt8]) -> UInt64 { max(1, key.withUnsafeBytes { ContentHash.number(of: $0) }) }
}
