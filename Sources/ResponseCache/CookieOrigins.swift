// Records which cookies the upstream gave to clients without credentials, and for which targets (`SharedRescueMode.own`). Each set of
// cookies has a small record in the store, under a keyed hash of the cookies and the API's name. A set remains recorded while stored
// responses change it by Set-Cookie. The first request that may be a login removes it: an unsafe request, or one with other credentials.
// It is not used while such a request is active, and remains if the upstream rejects the request or never receives it. Cookies set in
// response to such requests are never recorded.

import CachePolicy
import CacheStore
import Reactor
import Synchronization

/// Shared by all shards; not used on the hot path of hits.
public final class CookieOrigins: Sendable {
    private let store: ResponseStore
    /// The API's name in keys if there are several; empty otherwise.
    private let name: [UInt8]
    /// Number of records that may be written now, and the time of that computation (milliseconds of the monotonic clock).
    private let allowance = Mutex((records: CookieOrigins.burst, time: Int64.min))
    private let left = Atomic<Int>(0)
    /// Number of active requests that may be logins, by partition of their cookies. Bounded by the number of requests.
    private let logins = Mutex<[[UInt8]: Int]>([:])

    /// Maximum number of targets and responses for each set of cookies; the oldest are dropped.
    private static let targetLimit = 32
    /// Rate limit: maximum burst, and records per second. Protects stored responses from eviction by a crowd of new clients.
    private static let burst = 1_000
    private static let perSecond: Int64 = 20
    private static let hashBytes = 16

    init(store: ResponseStore, name: [UInt8]) { (self.store, self.name) = (store, name) }

    /// Number of sets of cookies that were not recorded because of the rate limit.
    public var leftOut: Int { left.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - cookies: partition of requests with exactly these cookies.
    ///   - target: key of the target in the partition without credentials, or number of a response.
    func contains(_ cookies: [UInt8], target: [UInt8], in cache: ResponseCache) throws(NotInMemory) -> Bool {
        guard !isSuspended(cookies) else { return false }
        var basis = FindingBasis()
        return Self.targets(in: try cache.item(key(cookies), &basis)).contains(hash(target))
    }

    /// Records that a client without credentials received these cookies. Waits for the disk if the existing record is not in memory.
    /// - Parameter targets: key of the requested target, and number of the response.
    func remember(_ cookies: [UInt8], targets: [[UInt8]], now: Int64) { add(targets.map(hash), to: cookies, now: now) }

    /// Records that a client's cookies were replaced. The targets of the earlier cookies apply to the new ones.
    func remember(_ cookies: [UInt8], after earlier: [UInt8], now: Int64) {
        let known = isSuspended(earlier) ? [] : targets(of: earlier)
        if !known.isEmpty { add(known, to: cookies, now: now) }
    }

    private func isSuspended(_ cookies: [UInt8]) -> Bool { logins.withLock { $0[cookies] != nil } }

    fileprivate func beginLogin(with cookies: [UInt8]) { logins.withLock { $0[cookies, default: 0] += 1 } }

    /// Removes the record of these cookies, if a user may have logged in with them.
    fileprivate func endLogin(with cookies: [UInt8], isWithoutEffect: Bool) {
        if !isWithoutEffect { store.remove(key(cookies).span) }
        logins.withLock { logins in
            let left = (logins[cookies] ?? 1) - 1
            logins[cookies] = left > 0 ? left : nil
        }
    }

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
        guard let item, StoredMetadata.kind(of: item.metadata.span) == .cookieOrigins else { return [] }
        let bytes = Array(item.head)
        return stride(from: 0, to: bytes.count - hashBytes + 1, by: hashBytes).map { Array(bytes[$0..<$0 + hashBytes]) }
    }

    private func hash(_ target: [UInt8]) -> [UInt8] { store.credentialPartition(target) }

    func key(_ cookies: [UInt8]) -> [UInt8] { [UInt8(ascii: "J")] + cookies + name }
}

/// An active request that may be a login. Its end removes the record of its cookies, unless the request had no effect.
public final class CookieLogin {
    private let origins: CookieOrigins
    private let cookies: [UInt8]
    /// Whether the upstream has rejected the request, or never received it.
    public var isWithoutEffect = false

    init(_ cookies: [UInt8], in origins: CookieOrigins) {
        (self.cookies, self.origins) = (cookies, origins)
        origins.beginLogin(with: cookies)
    }

    deinit { origins.endLogin(with: cookies, isWithoutEffect: isWithoutEffect) }
}
