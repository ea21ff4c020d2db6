// Which cookies the upstream gave to clients that had come without credentials, and for which targets: for each such set of cookies one small
// record in the store, so that it outlives a restart. The key is the partition that requests with exactly these cookies have: a keyed hash,
// which tells nothing of them, with the API's name where there are several. So a client whose only credentials are such cookies is known to be the one that asked for those targets when it
// had none (`RescueWithShared.own`).
//
// A set stays known while responses to it are kept ones and change it by Set-Cookie. It is forgotten with the first request that could have been a
// login: an unsafe one, or one with credentials beside the cookies. Cookies that such a request brings are never known here.

import CachePolicy
import CacheStore
import Locking
import Synchronization

/// Shared by all shards; off the path of a hit.
public final class CookieOrigins: Sendable {
    private let store: ResponseStore
    /// What one of several APIs is called in keys; empty for the only one.
    private let name: [UInt8]
    /// Records that may be written now, and when that was worked out (milliseconds of the loop's clock).
    private let allowance = Mutex((records: CookieOrigins.burst, time: Int64.min))
    private let left = Atomic<Int>(0)

    /// Targets of one set of cookies that are remembered; the oldest go.
    private static let targetLimit = 16
    /// Records are written at this pace, and so many at once, so that a crowd of new clients does not push copies out of the store.
    private static let burst = 1_000
    private static let perSecond: Int64 = 20
    private static let hashBytes = 16

    init(store: ResponseStore, name: [UInt8]) { (self.store, self.name) = (store, name) }

    /// Sets of cookies that were not remembered, because too many came.
    public var leftOut: Int { left.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - cookies: the partition of requests with exactly these cookies.
    ///   - target: its key in the partition of those without credentials.
    func contains(_ cookies: [UInt8], target: [UInt8], in cache: ResponseCache) throws(NotAtHand) -> Bool {
        Self.targets(in: try cache.item(key(cookies))).contains(hash(target))
    }

    /// A client without credentials asked for `target` and was given these. What is known of them is in memory, or this waits for the disk.
    func remember(_ cookies: [UInt8], target: [UInt8], now: Int64) { add([hash(target)], to: cookies, now: now) }

    /// A client that had the ones was given the others in their place. The same holds for both.
    func remember(_ cookies: [UInt8], after earlier: [UInt8], now: Int64) {
        let known = targets(of: earlier)
        if !known.isEmpty { add(known, to: cookies, now: now) }
    }

    /// What was known of these may be so no longer: somebody may have logged in with them.
    func forget(_ cookies: [UInt8]) { store.remove(key(cookies).span) }

    private func add(_ targets: [[UInt8]], to cookies: [UInt8], now: Int64) {
        let known = self.targets(of: cookies)
        let all = known.filter { !targets.contains($0) } + targets
        guard all != known else { return }
        guard isAllowed(now) else {
            _ = left.wrappingAdd(1, ordering: .relaxed)
            return
        }
        let head = Array(all.suffix(Self.targetLimit).joined())
        store.insert(
            NewItem(key: key(cookies), metadata: StoredMetadata.cookieOrigins, head: head, body: [], retention: .mayRescue))
    }

    private func isAllowed(_ now: Int64) -> Bool {
        allowance.withLock { allowance in
            if allowance.time == .min { allowance.time = now }
            let earned = max(0, now - allowance.time) * Self.perSecond / 1000
            if earned > 0 {
                allowance.records = Int(min(Int64(Self.burst), Int64(allowance.records) + earned))
                allowance.time = now
            }
            guard allowance.records > 0 else { return false }
            allowance.records -= 1
            return true
        }
    }

    private func targets(of cookies: [UInt8]) -> [[UInt8]] { Self.targets(in: store.lookUp(key(cookies).span)) }

    private static func targets(in item: StoredItem?) -> [[UInt8]] {
        guard let item, StoredMetadata.kind(of: item.metadata) == .cookieOrigins else { return [] }
        let bytes = Array(item.head)
        return stride(from: 0, to: bytes.count - hashBytes + 1, by: hashBytes).map { Array(bytes[$0..<$0 + hashBytes]) }
    }

    private func hash(_ target: [UInt8]) -> [UInt8] { store.credentialPartition(target) }

    func key(_ cookies: [UInt8]) -> [UInt8] { [UInt8(ascii: "J")] + cookies + name }
}
