// What hits sent a moment ago. A request that is like one before gets the same response without being looked up and put together: byte for byte the
// same, then it is not even parsed; or the same in all that a hit goes by. That holds for as long as nothing of what the response was made of can
// have changed: what lies in the store under the keys that were looked at (`FindingBasis`), the modes (then all is forgotten), and the age that
// the response tells. So it is given for a second at most, and a popular target takes the long way once a second.

import CachePolicy
import Downstream
import Explanation
import Glibc
import HTTPCore
import Hashing
import ResponseCache
import Telemetry

/// What went out, and what is recorded each time it does.
public final class KeptHit {
    public let response: CompleteResponse
    /// As they were recorded last: what differs from time to time is written over. Copying both took as long as all
    /// the rest of recording.
    public var record: ExchangeRecord
    public var trace: ExchangeTrace
    fileprivate let basis: FindingBasis
    fileprivate let times: Range<Int64>

    /// - Parameter times: milliseconds since 1970 at which it can be given again. They have a beginning for clocks that are set back.
    public init(
        _ response: UnsafeRawBufferPointer, _ basis: FindingBasis, times: Range<Int64>, _ record: ExchangeRecord, _ trace: ExchangeTrace
    ) {
        self.response = CompleteResponse(response)
        self.record = record
        self.trace = trace
        self.basis = basis
        self.times = times
    }
}

/// Touched on its shard's loop only.
public final class HitMemo {
    /// A request as the memo knows it.
    public struct Request {
        fileprivate let key: [UInt8]
        fileprivate let hash: UInt64
        /// All of it, where it came alone.
        fileprivate let bytes: UnsafeRawBufferPointer?
        fileprivate let isSecure: Bool
    }

    public final class Entry {
        fileprivate let key: [UInt8]
        public let hit: KeptHit
        /// The request's, where its bytes are the key.
        public let head: RequestHead?
        /// The request came by https, where that tells requests apart.
        public let isSecure: Bool
        /// Since another wanted its place.
        fileprivate var isUsed = true

        fileprivate init(_ key: [UInt8], _ hit: KeptHit, _ head: RequestHead? = nil, isSecure: Bool = false) {
            (self.key, self.hit, self.head, self.isSecure) = (key, hit, head, isSecure)
        }

        fileprivate var bytes: Int { key.count + (head?.fields.bytes.count ?? 0) + hit.response.bytes.count }
    }

    /// Fields that no hit goes by, but where a Vary or the operator names them.
    private static let unread: KnownFieldSet = [
        .accept, .acceptLanguage, .b3, .baggage, .forwarded, .referer, .traceparent, .tracestate, .userAgent, .xAmznTraceID,
        .xB3ParentSpanID, .xB3Sampled, .xB3SpanID, .xB3TraceID, .xCorrelationID, .xForwardedFor, .xRealIP, .xRequestID,
    ]

    private let cache: SharedCacheState
    private var unread: KnownFieldSet
    /// Those of them that have few values: where some response varies by one, keys tell it apart from then on.
    private static let fewValued: KnownFieldSet = [.accept, .acceptLanguage]
    /// Of targets: most requests for one that does not come often end here, before anything is made for them.
    private var targets = RecentHashes(places: 16_384)
    private var byBytes = HitTable(places: 256)
    private var byKey = HitTable(places: 2_048)
    /// The memory of the last request's key, which is used again.
    private var scratch: [UInt8] = []

    /// Of requests and responses. Beyond it all are forgotten.
    private static let limitBytes = 4 << 20
    private static let keyLimitBytes = 4_096

    public init(cache: SharedCacheState) {
        self.cache = cache
        let policy = cache.settings.policy
        let kinds = RequestFieldKinds(policy)
        var unread = Self.unread
        for field in KnownField.allCases where unread.contains(field) {
            let name = field.name.withUTF8Buffer { Array($0) }
            if kinds.kind(of: name.span) == .unknown { unread.remove(field) }
        }
        for name in policy.credentials.fields + policy.keyFields { KnownField(Array(name.utf8).span).map { unread.remove($0) } }
        // Forwarded may name hosts, so responses depend on it.
        if policy.passesForwarded { unread.remove(.forwarded) }
        self.unread = unread
    }

    // MARK: Finding

    /// What a request that has not been parsed got before, where it would get that again.
    /// - Parameters:
    ///   - isSecure: it comes by https, where that tells requests apart.
    ///   - now: milliseconds since 1970.
    public func find(_ bytes: UnsafeRawBufferPointer, isSecure: Bool = false, now: Int64) -> Entry? {
        guard let entry = byBytes.find(bytes, Self.hash(bytes, isSecure)), entry.isSecure == isSecure, holds(entry.hit, now) else {
            return nil
        }
        return entry
    }

    private static func hash(_ bytes: UnsafeRawBufferPointer, _ isSecure: Bool) -> UInt64 {
        isSecure ? ~ContentHash.number(of: bytes) : ContentHash.number(of: bytes)
    }

    /// The same for a parsed one.
    public func find(_ request: Request, now: Int64) -> KeptHit? {
        let entry = request.key.withUnsafeBytes { byKey.find($0, request.hash) }
        guard let hit = entry?.hit, holds(hit, now) else { return nil }
        return hit
    }

    private func holds(_ hit: KeptHit, _ now: Int64) -> Bool {
        hit.times.contains(now) && cache.holds(hit.basis, now: Timestamp(milliseconds: now))
    }

    /// nil where its hits are not kept: also where its target has not come a moment ago.
    /// - Parameters:
    ///   - head: of a request without content.
    ///   - bytes: all of it, where it came alone (`ReceivedRequest`). They are read again in `keep`, and nowhere later.
    ///   - isSecure: it comes by https, where that tells requests apart: the bytes do not say it.
    public func request(_ head: RequestHead, _ bytes: UnsafeRawBufferPointer?, isSecure: Bool = false) -> Request? {
        guard head.method.isRead, !head.target.isEmpty, head.target.count + head.fields.bytes.count <= Self.keyLimitBytes,
            targets.hasCome(head.target.withUnsafeBytes { ContentHash.number(of: $0) })
        else { return nil }
        scratch.removeAll(keepingCapacity: true)
        // Method and version in one, and two bytes between the parts of each line.
        let limit = 1 + head.target.count + head.fields.bytes.count + 2 * head.fields.count
        scratch.append(addingCapacity: limit) { output in
            output.withUnsafeMutableBufferPointer { space, written in written = write(head, to: space) }
        }
        return Request(key: scratch, hash: scratch.withUnsafeBytes { ContentHash.number(of: $0) }, bytes: bytes, isSecure: isSecure)
    }

    /// All that a hit goes by. Neither a target nor a field has a line's end in it, nor a name a colon: so no two requests are alike in this that
    /// are not alike.
    private func write(_ head: RequestHead, to space: UnsafeMutableBufferPointer<UInt8>) -> Int {
        let out = UnsafeMutableRawPointer(space.baseAddress!)
        var count = 1
        space[0] = (head.method == .head ? 1 : 0) | (head.version == .http10 ? 2 : 0)
        head.target.withUnsafeBytes {
            memcpy(out + count, $0.baseAddress!, $0.count)
            count += $0.count
        }
        head.fields.bytes.withUnsafeBytes { bytes in
            func put(_ range: Range<Int>, behind byte: UInt8) {
                space[count] = byte
                memcpy(out + count + 1, bytes.baseAddress! + range.lowerBound, range.count)
                count += 1 + range.count
            }
            for entry in head.fields.entries where !unread.holds(entry) {
                put(entry.nameRange, behind: 0x0a)
                put(entry.valueRange, behind: 0x3a)
            }
        }
        return count
    }

    // MARK: Keeping

    /// Keeps what a request got, if it comes often.
    public func keep(_ request: Request, _ head: RequestHead, _ basis: FindingBasis, _ makeHit: () -> KeptHit) {
        let isUnread = basis.selecting.contains { name in KnownField(name.span).map(unread.contains) ?? false }
        if isUnread {
            read(basis.selecting)
            // Now nothing but its bytes tells it from others.
            return keepByBytes(request, head, makeHit)
        }
        guard byKey.hasCome(request.hash) else { return }
        let hit = makeHit()
        byKey.keep(Entry(request.key, hit), request.hash, limitBytes: Self.limitBytes)
        keepByBytes(request, head) { hit }
    }

    private func read(_ names: [ArraySlice<UInt8>]) {
        for name in names {
            guard let field = KnownField(name.span), Self.fewValued.contains(field), unread.contains(field) else { continue }
            unread.remove(field)
            // Their keys say nothing of it.
            byKey.forget()
        }
    }

    /// Keeps what was given again for a request whose bytes come often.
    public func keep(_ hit: KeptHit, _ request: Request, _ head: RequestHead) {
        keepByBytes(request, head) { hit }
    }

    private func keepByBytes(_ request: Request, _ head: RequestHead, _ makeHit: () -> KeptHit) {
        guard let bytes = request.bytes else { return }
        let hash = Self.hash(bytes, request.isSecure)
        guard byBytes.hasCome(hash) else { return }
        // What is recorded of this request is nothing of the next one's.
        let head = head.span.isRecorded ? head.recorded(as: .none) : head
        byBytes.keep(Entry(Array(bytes), makeHit(), head, isSecure: request.isSecure), hash, limitBytes: Self.limitBytes)
    }

    public func forget() {
        byBytes.forget()
        byKey.forget()
    }
}

/// A place for each of so many hashes. It takes memory with the first: an API that is hardly asked has none. Never copied: each look into it would
/// count references.
private struct HitTable: ~Copyable {
    private var entries: [HitMemo.Entry?] = []
    /// The entries', so that nothing is touched of those that are not asked for.
    private var hashes: [UInt64] = []
    private let places: Int
    private var recent: RecentHashes
    private var keptBytes = 0

    /// How many requests are remembered for each place.
    private static let remembered = 8

    /// - Parameter places: a power of two.
    init(places: Int) {
        self.places = places
        recent = RecentHashes(places: places * Self.remembered)
    }

    private func place(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (places - 1) }

    func find(_ key: UnsafeRawBufferPointer, _ hash: UInt64) -> HitMemo.Entry? {
        let place = place(hash)
        guard !hashes.isEmpty, hashes[place] == hash, let entry = entries[place], entry.key.count == key.count,
            entry.key.withUnsafeBytes({ memcmp($0.baseAddress!, key.baseAddress!, key.count) }) == 0
        else { return nil }
        if !entry.isUsed { entry.isUsed = true }
        return entry
    }

    /// Only what comes twice is kept.
    mutating func hasCome(_ hash: UInt64) -> Bool { recent.hasCome(hash) }

    /// What others in its place are asked for stays once more.
    mutating func keep(_ entry: HitMemo.Entry, _ hash: UInt64, limitBytes: Int) {
        let place = place(hash)
        if entries.isEmpty { (entries, hashes) = (Array(repeating: nil, count: places), Array(repeating: 0, count: places)) }
        if let old = entries[place], hashes[place] != hash, old.isUsed, old.hit.times.contains(entry.hit.times.lowerBound) {
            old.isUsed = false
            return
        }
        if keptBytes > limitBytes { forget() }
        keptBytes += entry.bytes - (entries[place]?.bytes ?? 0)
        (entries[place], hashes[place]) = (entry, hash)
    }

    mutating func forget() {
        for place in entries.indices { (entries[place], hashes[place]) = (nil, 0) }
        keptBytes = 0
    }
}
