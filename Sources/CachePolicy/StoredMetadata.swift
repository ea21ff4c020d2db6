// Metadata of stored items in a fixed layout. It is stored next to the response and decoded for every hit, so decoding takes only a few
// loads. Little-endian, with a version: a record of another version is treated as absent.

import HTTPCore

/// Kind of a stored item.
public enum StoredKind: UInt8, Sendable {
    case response = 1
    /// Stored under the key of a response. Names the selecting fields by which the response's variants are found.
    case varyMarker = 2
    /// Stored under the key of a response. Responses for this target that were stored earlier are invalid, in every partition.
    case invalidation = 3
    /// The upstream's last No-Vary-Search for a path.
    case searchVariance = 4
    /// The cookies that the upstream gave to clients without cookies.
    case cookieOrigins = 5
    /// The 404, 410 or 403 that followed a stored response; stored next to it.
    case gone = 6
}

public struct StoredFlags: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
    public static let noCache = StoredFlags(rawValue: 1 << 0)
    public static let mustRevalidate = StoredFlags(rawValue: 1 << 1)
    public static let proxyRevalidate = StoredFlags(rawValue: 1 << 2)
    public static let sharedMaxAge = StoredFlags(rawValue: 1 << 3)
    public static let immutable = StoredFlags(rawValue: 1 << 4)
    public static let isJSON = StoredFlags(rawValue: 1 << 5)
    /// The content was decoded for storing, so a strong entity tag is sent as a weak one.
    public static let weakenedETag = StoredFlags(rawValue: 1 << 6)
    /// Cistern computed the entity tag from the content; the upstream does not know it.
    public static let ownTag = StoredFlags(rawValue: 1 << 7)
    /// Purged softly, or made doubtful by a later write: stale regardless of the response's fields. The store tracks this flag; it is never
    /// written with the metadata.
    public static let markedStale = StoredFlags(rawValue: 1 << 8)
    /// The response belongs to groups (RFC 9875), which an unsafe request may have changed.
    public static let hasGroups = StoredFlags(rawValue: 1 << 9)
    /// The response to a request with Authorization, stored for all users because a directive permits it (RFC 9111 §3.5).
    public static let authorized = StoredFlags(rawValue: 1 << 10)
    /// The content must not be transformed (§5.2.2.6).
    public static let noTransform = StoredFlags(rawValue: 1 << 11)
    /// The response has targeted fields for this cache (RFC 9213).
    public static let hasTargeted = StoredFlags(rawValue: 1 << 12)
    /// The response has `public`.
    public static let isPublic = StoredFlags(rawValue: 1 << 13)
    /// The response was imported from an archive; its times are the archive's.
    public static let imported = StoredFlags(rawValue: 1 << 14)
    /// The content is stored in a coding, so only clients that accept the coding receive it.
    public static let coded = StoredFlags(rawValue: 1 << 15)
    /// The content is sent exactly as received. A constant, because building the set costs a hit more than testing it.
    public static let unchanging: StoredFlags = [.noTransform, .coded]
    /// The operator's rules ignored a directive of the response (`FreshnessRules`).
    public static let disregarded = StoredFlags(rawValue: 1 << 16)
    /// Three bits with the origin of the freshness lifetime (`LifetimeSource`).
    fileprivate static let lifetimeSourceShift: UInt32 = 17
    fileprivate static let lifetimeSource = StoredFlags(rawValue: 7 << lifetimeSourceShift)
    /// The upstream sent the content in a coding.
    public static let cameCoded = StoredFlags(rawValue: 1 << 20)
    /// The request had no credentials and the response gives none, so the content holds no secrets.
    public static let isOpen = StoredFlags(rawValue: 1 << 21)
    /// The response has no digests of its content, which would cover the coding.
    public static let hasNoDigests = StoredFlags(rawValue: 1 << 22)
    /// The response itself lists Accept-Encoding in Vary.
    public static let variesByCoding = StoredFlags(rawValue: 1 << 23)
    /// It is unknown whether another node has purged the response. It counts as stale meanwhile. Never written.
    public static let unseen = StoredFlags(rawValue: 1 << 24)
    /// The permission for scripts to read the response may depend on their origin, and Vary does not list Origin (`OriginGrant.isBound`).
    public static let boundToOrigin = StoredFlags(rawValue: 1 << 25)
    /// It is unknown whether the requesting script may read the response. Never written.
    public static let ofOtherOrigin = StoredFlags(rawValue: 1 << 26)
    /// The response serves all requests, whatever unknown fields they have (`UnknownFields.makeNoDifference`).
    public static let forAllFields = StoredFlags(rawValue: 1 << 27)
    /// JSON that violates RFC 8259 but that some parsers accept (`JSONVerdict.lenient`).
    public static let isLenient = StoredFlags(rawValue: 1 << 28)
    /// The response gave a credential to a client without one, and its data may be those of the session that the credential identifies.
    public static let startsSession = StoredFlags(rawValue: 1 << 29)
    /// Flags that make a response stale regardless of its fields. None of them is written with the metadata.
    public static let countsAsStale: StoredFlags = [.markedStale, .unseen, .ofOtherOrigin]
}

/// The metadata of a stored response, decoded.
public struct StoredMetadata: Sendable, Equatable {
    /// Times when the request was sent and its response received (RFC 9111 §4.2.3).
    public var requestTime: Timestamp
    public var responseTime: Timestamp
    /// Sequence number of the request among all requests sent by the process.
    public var order = SentOrder.unknown
    /// Value of the Date field.
    public var date: Timestamp
    /// Value of the Age field in seconds.
    public var ageValue: Int64 = 0
    /// Freshness lifetime in seconds; nil if the response gives none, so every use requires validation.
    public var freshnessLifetime: Int64?
    /// Seconds; nil if the response has no `stale-if-error`.
    public var staleIfError: Int64?
    /// Seconds; nil if neither the response nor the operator sets `stale-while-revalidate`.
    public var staleWhileRevalidate: Int64?
    public var status: Status = 200
    public var flags: StoredFlags = []
    /// Ranges of the validators' values in the stored head; empty if there is none.
    public var etag: Range<Int> = 0..<0
    public var lastModified: Range<Int> = 0..<0
    /// Number for the request's negotiation and unknown fields (`RequestLikeness`); 0 if unknown.
    public var likeness: UInt64 = 0
    /// Number for the fields by which servers select a representation (`RequestLikeness.negotiation`); 0 if unknown.
    public var negotiation: UInt64 = 0

    public init(requestTime: Timestamp, responseTime: Timestamp, date: Timestamp) {
        self.requestTime = requestTime
        self.responseTime = responseTime
        self.date = date
    }

    public var recency: Recency {
        Recency(order: order, isImported: flags.contains(.imported), requestTime: requestTime, responseTime: responseTime)
    }

    /// Converts the times to another clock. Ages do not change.
    /// - Parameter milliseconds: how far the other clock is ahead.
    public mutating func shift(by milliseconds: Int64) {
        func shifted(_ time: Timestamp) -> Timestamp { Timestamp(milliseconds: time.milliseconds + milliseconds) }
        (requestTime, responseTime, date) = (shifted(requestTime), shifted(responseTime), shifted(date))
    }

    /// Returns the metadata as stale. A request with this order has shown that the resource changed.
    public func stale(since order: SentOrder) -> StoredMetadata {
        var stale = self
        stale.freshnessLifetime = 0
        stale.order = order
        // The order now belongs to a request of this process, not to an import.
        stale.flags.subtract(StoredFlags.countsAsStale.union(.imported))
        return stale
    }

    /// Origin of the freshness lifetime.
    public var lifetimeSource: LifetimeSource {
        get {
            let number = flags.intersection(.lifetimeSource).rawValue >> StoredFlags.lifetimeSourceShift
            return LifetimeSource(rawValue: UInt8(number)) ?? .response
        }
        set {
            flags.subtract(.lifetimeSource)
            flags.formUnion(StoredFlags(rawValue: UInt32(newValue.rawValue) << StoredFlags.lifetimeSourceShift))
        }
    }

    /// True for an error stored briefly (`negative`) to avoid repeated requests. It never replaces a good response.
    public var isNegative: Bool { lifetimeSource == .negative }
    /// Whether the response itself states that it may be served to clients without validation, or to all of them.
    public var isForAll: Bool {
        if !flags.isDisjoint(with: [.isPublic, .sharedMaxAge]) { return true }
        return [.response, .maximum].contains(lifetimeSource) && freshnessLifetime ?? 0 > 0 && !flags.contains(.noCache)
    }

    private static let version: UInt8 = 1
    /// Encoded length in bytes without the fields that older versions did not write.
    public static let encodedBytes = 88
    private static let likenessIndex = encodedBytes

    public static func kind(of bytes: Span<UInt8>) -> StoredKind? {
        bytes.count >= 2 && bytes[0] == version ? StoredKind(rawValue: bytes[1]) : nil
    }

    /// - Parameter kind: `.response`, or the kind of an additional item that is stored next to a response.
    public func encoded(as kind: StoredKind = .response) -> [UInt8] {
        Array(atMost: Self.likenessIndex + 16) { out in
            out.put(Self.version)
            out.put(kind.rawValue)
            out.put(littleEndian: status.rawValue)
            out.put(littleEndian: flags.rawValue)
            out.put(littleEndian: requestTime.milliseconds)
            out.put(littleEndian: responseTime.milliseconds)
            out.put(littleEndian: date.milliseconds)
            out.put(littleEndian: ageValue)
            out.put(littleEndian: freshnessLifetime ?? -1)
            out.put(littleEndian: staleIfError ?? -1)
            out.put(littleEndian: staleWhileRevalidate ?? -1)
            for offset in [etag.lowerBound, etag.upperBound, lastModified.lowerBound, lastModified.upperBound] {
                out.put(littleEndian: UInt32(offset))
            }
            out.put(littleEndian: order.number)
            out.put(littleEndian: likeness)
            out.put(littleEndian: negotiation)
        }
    }

    /// Maximum magnitude of times in milliseconds around 1970, and of durations in seconds: 285,000 years each. Damaged records may contain
    /// larger numbers, and sums of those must not overflow.
    private static let (timeLimit, secondsLimit): (Int64, Int64) = (1 << 53, 1 << 43)

    /// Decodes metadata. Returns nil if the bytes are not a stored response of this version and kind, or are damaged so that calculations
    /// would overflow.
    public init?(_ bytes: Span<UInt8>, as kind: StoredKind = .response) {
        let hasNegotiation = bytes.count >= Self.likenessIndex + 16
        let hasLikeness = hasNegotiation || bytes.count == Self.likenessIndex + 8
        guard hasLikeness || bytes.count == Self.encodedBytes, Self.kind(of: bytes) == kind else { return nil }
        func number(_ index: Int) -> Int64 { bytes.littleEndian(at: 8 + index * 8) }
        func offset(_ index: Int) -> Int { Int(bytes.littleEndian(at: 64 + index * 4, as: UInt32.self)) }
        for index in 0..<3 where number(index).magnitude > Self.timeLimit { return nil }
        guard number(3) >= 0 else { return nil }
        for index in 3..<7 where number(index) > Self.secondsLimit { return nil }
        requestTime = Timestamp(milliseconds: number(0))
        responseTime = Timestamp(milliseconds: number(1))
        date = Timestamp(milliseconds: number(2))
        ageValue = number(3)
        freshnessLifetime = number(4) < 0 ? nil : number(4)
        staleIfError = number(5) < 0 ? nil : number(5)
        staleWhileRevalidate = number(6) < 0 ? nil : number(6)
        status = Status(rawValue: bytes.littleEndian(at: 2))
        flags = StoredFlags(rawValue: bytes.littleEndian(at: 4))
        guard offset(0) <= offset(1), offset(2) <= offset(3) else { return nil }
        etag = offset(0)..<offset(1)
        lastModified = offset(2)..<offset(3)
        order = SentOrder(number: bytes.littleEndian(at: 80))
        if hasLikeness { likeness = bytes.littleEndian(at: Self.likenessIndex) }
        if hasNegotiation { negotiation = bytes.littleEndian(at: Self.likenessIndex + 8) }
    }

    // MARK: Other kinds

    /// - Parameters:
    ///   - generation: part of each variant's key, so that a marker of another generation makes all older variants unreachable.
    ///   - recency: recency of the latest response under the marker.
    ///   - replaced: recency of the latest response that this generation replaced. No older response is stored under the marker.
    ///   - best: quality of the best variant.
    public static func varyMarker(
        generation: UInt64, _ recency: Recency, replaced: Recency? = nil, best: LastGood.Worth? = nil
    ) -> [UInt8] {
        var out = plain(.varyMarker, generation, [recency] + (replaced.map { [$0] } ?? []))
        out[bestVariantIndex] = best?.rawValue ?? 0
        return out
    }

    private static let bestVariantIndex = 3

    /// Quality of the best variant under a Vary marker. nil if unknown: older versions did not write it.
    public static func bestVariant(in marker: Span<UInt8>) -> LastGood.Worth? {
        kind(of: marker) == .varyMarker && marker.count > bestVariantIndex ? LastGood.Worth(rawValue: marker[bestVariantIndex]) : nil
    }

    public static func invalidation(at time: Timestamp) -> [UInt8] { plain(.invalidation, UInt64(bitPattern: time.milliseconds), []) }

    /// - Parameters:
    ///   - generation: part of the keys of responses with this variance, as for a Vary marker.
    ///   - recency: recency of the latest response with this variance.
    public static func searchVariance(generation: UInt64, _ recency: Recency) -> [UInt8] { plain(.searchVariance, generation, [recency]) }

    public static let cookieOrigins = plain(.cookieOrigins, 0, [])

    /// Returns the generation of a marker or a variance, or the time of an invalidation in milliseconds.
    public static func number(in bytes: Span<UInt8>) -> UInt64? {
        bytes.count >= 16 ? bytes.littleEndian(at: 8) : nil
    }

    private static let plainBytes = 16
    /// Length of each recency after the plain part. Older versions wrote none.
    private static let recencyBytes = 24

    private static func plain(_ kind: StoredKind, _ number: UInt64, _ recencies: [Recency]) -> [UInt8] {
        var out = [version, kind.rawValue, 0, 0, 0, 0, 0, 0]
        out.reserveCapacity(plainBytes + recencies.count * recencyBytes)
        // One bit for each recency.
        for (index, recency) in recencies.enumerated() where recency.isImported { out[2] |= 1 << UInt8(index) }
        out.append(littleEndian: number)
        for recency in recencies {
            out.append(littleEndian: recency.order.number)
            out.append(littleEndian: recency.requestTime.milliseconds)
            out.append(littleEndian: recency.responseTime.milliseconds)
        }
        return out
    }

    /// Returns the recency of any stored item; nil if the item records none, in which case it counts as older than every other.
    public static func recency(of bytes: Span<UInt8>) -> Recency? {
        switch kind(of: bytes) {
        case .response: StoredMetadata(bytes)?.recency
        case .varyMarker, .searchVariance: recency(0, in: bytes)
        case .invalidation, .cookieOrigins, .gone, nil: nil
        }
    }

    /// Returns the recency of the response that a Vary marker replaced; nil if it replaced none.
    public static func replacedRecency(in bytes: Span<UInt8>) -> Recency? {
        kind(of: bytes) == .varyMarker ? recency(1, in: bytes) : nil
    }

    private static func recency(_ index: Int, in bytes: Span<UInt8>) -> Recency? {
        let start = plainBytes + index * recencyBytes
        guard bytes.count >= start + recencyBytes else { return nil }
        func number(_ index: Int) -> UInt64 { bytes.littleEndian(at: start + index * 8) }
        func time(_ index: Int) -> Timestamp { Timestamp(milliseconds: Int64(bitPattern: number(index))) }
        return Recency(
            order: SentOrder(number: number(0)), isImported: bytes[2] & 1 << UInt8(index) != 0, requestTime: time(1), responseTime: time(2))
    }
}
