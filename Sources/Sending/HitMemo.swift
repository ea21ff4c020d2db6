// Memory of recent hits. A repeated request gets the recorded response without a lookup. A request with identical bytes is not even
// parsed; any other must be equal in all parts that a hit depends on. A record is valid while nothing that the response depends on can
// have changed: the stored items under the keys that were looked up (`FindingBasis`), the modes, and the response's Age. So it is valid
// for at most a second.

import CachePolicy
import Downstream
import Explanation
import Figures
import Glibc
import HTTPCore
import ResponseCache

/// A sent response, and the record that is written each time it is sent.
public final class MemoizedHit {
    public let response: CompleteResponse
    /// Record as last written. Values that differ between requests are overwritten each time, because a copy took as long as the rest of
    /// recording.
    public var record: ExchangeRecord
    fileprivate let basis: FindingBasis
    fileprivate let times: Range<Int64>

    /// - Parameter times: range in which it may be sent again, in milliseconds since 1970. It has a lower bound because clocks may be set
    ///   back.
    public init(_ response: SentBytes, _ basis: FindingBasis, times: Range<Int64>, _ record: ExchangeRecord) {
        self.response = CompleteResponse(response.bytes)
        self.record = record
        self.basis = basis
        self.times = times
    }
}

/// Used on its shard's loop only.
public final class HitMemo {
    /// A request in the memory's form.
    public struct Request {
        fileprivate let key: [UInt8]
        fileprivate let hash: UInt64
        /// All bytes of the request, if it arrived alone; nil otherwise.
        fileprivate let bytes: UnsafeRawBufferPointer?
        fileprivate let isSecure: Bool
    }

    public final class Entry {
        fileprivate let key: [UInt8]
        public let hit: MemoizedHit
        /// The head of the request, if its bytes are the key; nil otherwise.
        public let head: RequestHead?
        /// Whether the request came by https, if the scheme distinguishes requests.
        public let isSecure: Bool
        /// Whether the entry was used since another one last competed for its slot.
        fileprivate var isUsed = true

        fileprivate init(_ key: [UInt8], _ hit: MemoizedHit, _ head: RequestHead? = nil, isSecure: Bool = false) {
            (self.key, self.hit, self.head, self.isSecure) = (key, hit, head, isSecure)
        }

        fileprivate var bytes: Int { key.count + (head?.fields.bytes.count ?? 0) + hit.response.bytes.count }
    }

    /// Fields that no hit depends on, unless a Vary field or the configuration names them.
    private static let unread: KnownFieldSet = [
        .accept, .acceptLanguage, .b3, .baggage, .forwarded, .referer, .traceparent, .tracestate, .userAgent, .xAmznTraceID,
        .xB3ParentSpanID, .xB3Sampled, .xB3SpanID, .xB3TraceID, .xCorrelationID, .xForwardedFor, .xRealIP, .xRequestID,
    ]

    private let cache: APICacheState
    private var unread: KnownFieldSet
    /// Fields among them with few values. If a response varies by one of them, keys include it from then on.
    private static let fewValued: KnownFieldSet = [.accept, .acceptLanguage]
    /// Hashes of targets. Most requests for an infrequent target end here, before any key is made.
    private var targets = RecentHashes(slots: 16_384)
    private var byBytes = HitTable(slots: 256)
    private var byKey = HitTable(slots: 2_048)
    /// Memory of the last request's key, which is reused.
    private var scratch: [UInt8] = []

    /// Maximum bytes of requests and responses. When it is exceeded, all entries are dropped.
    private static let limitBytes = 4 << 20
    private static let keyLimitBytes = 4_096

    public init(cache: APICacheState) {
        self.cache = cache
        let policy = cache.settings.policy
        let kinds = RequestFieldKinds(policy)
        var unread = Self.unread
        for field in KnownField.allCases where unread.contains(field) {
            let name = field.name.withUTF8Buffer { Array($0) }
            if kinds.kind(of: name.span) == .unknown { unread.remove(field) }
        }
        for name in policy.credentials.fields + policy.keyFields { KnownField(Array(name.utf8).span).map { unread.remove($0) } }
        // Forwarded may name hosts, which responses depend on.
        if policy.passesForwarded { unread.remove(.forwarded) }
        self.unread = unread
    }

    // MARK: Finding

    /// Returns the entry for a request that was not parsed; nil if none is valid.
    /// - Parameters:
    ///   - isSecure: whether the request came by https, if the scheme distinguishes requests.
    ///   - now: milliseconds since 1970.
    public func find(_ bytes: Span<UInt8>, isSecure: Bool = false, now: Int64) -> Entry? {
        let entry = bytes.withUnsafeBytes { byBytes.find($0, Self.hash($0, isSecure)) }
        guard let entry, entry.isSecure == isSecure, holds(entry.hit, now) else { return nil }
        return entry
    }

    private static func hash(_ bytes: UnsafeRawBufferPointer, _ isSecure: Bool) -> UInt64 {
        let number = ContentHash.number(of: bytes.assumingMemoryBound(to: UInt8.self).span)
        return isSecure ? ~number : number
    }

    /// Returns the hit for a parsed request; nil if none is valid.
    public func find(_ request: Request, now: Int64) -> MemoizedHit? {
        let entry = request.key.withUnsafeBytes { byKey.find($0, request.hash) }
        guard let hit = entry?.hit, holds(hit, now) else { return nil }
        return hit
    }

    private func holds(_ hit: MemoizedHit, _ now: Int64) -> Bool {
        hit.times.contains(now) && cache.holds(hit.basis, now: Timestamp(milliseconds: now))
    }

    /// Returns the request in the memory's form; nil if its hits are not kept, or if its target was not requested recently.
    /// - Parameters:
    ///   - head: head of a request without content.
    ///   - bytes: all bytes of the request if it arrived alone (`ReceivedRequest`); nil otherwise. They are read again in `keep`, and not
    ///     later.
    ///   - isSecure: whether the request came by https, if the scheme distinguishes requests. The bytes do not contain it.
    public func request(_ head: RequestHead, _ bytes: UnsafeRawBufferPointer?, isSecure: Bool = false) -> Request? {
        let target = head.target
        guard head.method.isRead, !target.isEmpty, target.count + head.fields.bytes.count <= Self.keyLimitBytes,
            targets.hasCome(ContentHash.number(of: target.span))
        else { return nil }
        scratch.removeAll(keepingCapacity: true)
        // One byte for method and version, and two separators per line.
        let limit = 1 + head.target.count + head.fields.bytes.count + 2 * head.fields.count
        scratch.append(addingCapacity: limit) { output in
            output.withUnsafeMutableBufferPointer { space, written in written = write(head, to: space) }
        }
        let key = scratch
        return Request(key: key, hash: ContentHash.number(of: key.span), bytes: bytes, isSecure: isSecure)
    }

    /// Writes all parts of a request that a hit depends on. Neither a target nor a field contains a line end, and a name has no colon, so
    /// different requests always have different keys.
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

    /// Records the response to a request that is frequent.
    public func keep(_ request: Request, _ head: RequestHead, _ basis: FindingBasis, _ makeHit: () -> MemoizedHit) {
        let isUnread = basis.selecting.contains { name in KnownField(name.span).map(unread.contains) ?? false }
        if isUnread {
            read(basis.selecting)
            // From now on, the request can be recognized by its bytes only.
            return memoizeByBytes(request, head, makeHit)
        }
        guard byKey.hasCome(request.hash) else { return }
        let hit = makeHit()
        byKey.keep(Entry(request.key, hit), request.hash, limitBytes: Self.limitBytes)
        memoizeByBytes(request, head) { hit }
    }

    private func read(_ names: [ArraySlice<UInt8>]) {
        for name in names {
            guard let field = KnownField(name.span), Self.fewValued.contains(field), unread.contains(field) else { continue }
            unread.remove(field)
            // Existing keys do not include the field.
            byKey.forget()
        }
    }

    /// Records a response that was sent again, if the request's bytes are frequent.
    public func keep(_ hit: MemoizedHit, _ request: Request, _ head: RequestHead) {
        memoizeByBytes(request, head) { hit }
    }

    private func memoizeByBytes(_ request: Request, _ head: RequestHead, _ makeHit: () -> MemoizedHit) {
        guard let bytes = request.bytes else { return }
        let hash = Self.hash(bytes, request.isSecure)
        guard byBytes.hasCome(hash) else { return }
        // Values recorded for this request do not apply to the next one.
        let head = head.span.isRecorded ? head.recorded(as: .none) : head
        byBytes.keep(Entry(Array(bytes), makeHit(), head, isSecure: request.isSecure), hash, limitBytes: Self.limitBytes)
    }

    public func forget() {
        byBytes.forget()
        byKey.forget()
    }
}

/// A table with one slot per hash. Allocated at the first use, so that an API with few requests needs no memory. Not copyable, because
/// copies would need reference counting.
private struct HitTable: ~Copyable {
    private var entries: [HitMemo.Entry?] = []
    /// Hashes of the entries, so that look-ups touch no other entries.
    private var hashes: [UInt64] = []
    private let slots: Int
    private var recent: RecentHashes
    private var keptBytes = 0

    /// Number of recent requests recorded per slot.
    private static let remembered = 8

    /// - Parameter slots: number of slots, a power of two.
    init(slots: Int) {
        self.slots = slots
        recent = RecentHashes(slots: slots * Self.remembered)
    }

    func find(_ key: UnsafeRawBufferPointer, _ hash: UInt64) -> HitMemo.Entry? {
        let slot = Int(truncatingIfNeeded: hash) & (slots - 1)
        guard !hashes.isEmpty, hashes[slot] == hash, let entry = entries[slot], entry.key.count == key.count,
            entry.key.withUnsafeBytes({ memcmp($0.baseAddress!, key.baseAddress!, key.count) }) == 0
        else { return nil }
        if !entry.isUsed { entry.isUsed = true }
        return entry
    }

    /// Returns whether a hash has occurred recently, and records it. Only repeated requests are kept.
    mutating func hasCome(_ hash: UInt64) -> Bool { recent.hasCome(hash) }

    /// Adds an entry. A valid entry that was used since the last attempt to replace it is kept once more.
    mutating func keep(_ entry: HitMemo.Entry, _ hash: UInt64, limitBytes: Int) {
        let slot = Int(truncatingIfNeeded: hash) & (slots - 1)
        if entries.isEmpty { (entries, hashes) = (Array(repeating: nil, count: slots), Array(repeating: 0, count: slots)) }
        if let old = entries[slot], hashes[slot] != hash, old.isUsed, old.hit.times.contains(entry.hit.times.lowerBound) {
            old.isUsed = false
            return
        }
        if keptBytes > limitBytes { forget() }
        keptBytes += entry.bytes - (entries[slot]?.bytes ?? 0)
        (entries[slot], hashes[slot]) = (entry, hash)
    }

    mutating func forget() {
        for slot in entries.indices { (entries[slot], hashes[slot]) = (nil, 0) }
        keptBytes = 0
    }
}
