// What the rules need to know of a stored response, in a fixed layout that is read by a handful of loads: it lies next to the response in the
// store and is decoded at every hit. Little-endian, with a version: a record of another version is as good as absent.

import HTTPCore

/// What a stored item is.
public enum StoredKind: UInt8, Sendable {
    case response = 1
    /// Stands where a response would, and names the selecting fields by which its variants are found.
    case varyMarker = 2
    /// Stands where a response would: what was stored for this target before its time counts no more, in any partition.
    case invalidation = 3
    /// What the upstream last said of a path's arguments (No-Vary-Search).
    case searchVariance = 4
    /// Which cookies the upstream gave to clients that had none.
    case cookieOrigins = 5
    /// Beside a response: the 404, 410 or 403 that came after it.
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
    /// The content was decoded for storing, so a strong ETag is shown as a weak one.
    public static let weakenedETag = StoredFlags(rawValue: 1 << 6)
    /// The ETag was made here, of the content: the upstream does not know it.
    public static let ownTag = StoredFlags(rawValue: 1 << 7)
    /// Purged softly, or doubted by a write since: stale, whatever the response said. The store knows it; it is never written with the metadata.
    public static let markedStale = StoredFlags(rawValue: 1 << 8)
    /// It belongs to groups (RFC 9875), which an unsafe request may have changed.
    public static let hasGroups = StoredFlags(rawValue: 1 << 9)
    /// The response to a request with Authorization, kept for everyone by leave of a directive (RFC 9111 §3.5).
    public static let authorized = StoredFlags(rawValue: 1 << 10)
    /// §5.2.2.6: its content goes out as it is.
    public static let noTransform = StoredFlags(rawValue: 1 << 11)
    /// It has fields that are for us (RFC 9213).
    public static let hasTargeted = StoredFlags(rawValue: 1 << 12)
    /// It said `public`.
    public static let isPublic = StoredFlags(rawValue: 1 << 13)
    /// It comes from an archive: its times are the archive's.
    public static let imported = StoredFlags(rawValue: 1 << 14)
    /// Its content is stored in a coding: it is only for those who allow that.
    public static let coded = StoredFlags(rawValue: 1 << 15)
    /// Its content goes out just as it came. Ready-made: putting a set together costs a hit more than asking it.
    public static let unchanging: StoredFlags = [.noTransform, .coded]
    /// The operator's rules have left out something that it said (`FreshnessRules`).
    public static let disregarded = StoredFlags(rawValue: 1 << 16)
    /// Three bits: who said how long it is fresh.
    fileprivate static let lifetimeSourceShift: UInt32 = 17
    fileprivate static let lifetimeSource = StoredFlags(rawValue: 7 << lifetimeSourceShift)
    /// The upstream had put a coding on its content.
    public static let cameCoded = StoredFlags(rawValue: 1 << 20)
    /// It came to a request without credentials, and sets no cookies: there is nothing in it that nobody may guess.
    public static let isOpen = StoredFlags(rawValue: 1 << 21)
    /// It has no checksums of its content, which would take in the coding.
    public static let hasNoDigests = StoredFlags(rawValue: 1 << 22)
    /// It says itself that it depends on Accept-Encoding.
    public static let variesByCoding = StoredFlags(rawValue: 1 << 23)
    /// Nobody knows whether it has been purged on another node: stale as long as that is so. Never written.
    public static let unseen = StoredFlags(rawValue: 1 << 24)
    /// What scripts may read of it may depend on their origin, and it does not say that it varies by that (`OriginGrant.isBound`).
    public static let boundToOrigin = StoredFlags(rawValue: 1 << 25)
    /// Nobody knows whether the script that asks for it may read it. Never written.
    public static let ofOtherOrigin = StoredFlags(rawValue: 1 << 26)
    /// The response is for all requests, whatever unknown fields they have (`UnknownFields.makeNoDifference`).
    public static let forAllFields = StoredFlags(rawValue: 1 << 27)
    /// JSON that RFC 8259 refuses, and that readers may take (`JSONVerdict.lenient`).
    public static let isLenient = StoredFlags(rawValue: 1 << 28)
    /// Stale, whatever the response said. None of them is written with the metadata.
    public static let countsAsStale: StoredFlags = [.markedStale, .unseen, .ofOtherOrigin]
}

/// The plain part of a stored response.
public struct StoredMetadata: Sendable, Equatable {
    /// When the request was sent and its response received (RFC 9111 §4.2.3).
    public var requestTime: Timestamp
    public var responseTime: Timestamp
    /// The place of that request among all that were sent.
    public var order = SentOrder.unknown
    /// The Date field's value.
    public var date: Timestamp
    /// The Age field's value, seconds.
    public var ageValue: Int64 = 0
    /// Seconds; nil where the response said nothing about it: then the upstream is always asked first.
    public var freshnessLifetime: Int64?
    public var staleIfError: Int64?
    public var staleWhileRevalidate: Int64?
    public var status: Status = 200
    public var flags: StoredFlags = []
    /// Where the validators' values lie in the stored head; empty where there is none.
    public var etag: Range<Int> = 0..<0
    public var lastModified: Range<Int> = 0..<0
    /// A number for what the request said that the response came to, beyond its target and its credentials (`RequestLikeness`); 0 if unknown.
    public var likeness: UInt64 = 0

    public init(requestTime: Timestamp, responseTime: Timestamp, date: Timestamp) {
        self.requestTime = requestTime
        self.responseTime = responseTime
        self.date = date
    }

    public var recency: Recency {
        Recency(order: order, isImported: flags.contains(.imported), requestTime: requestTime, responseTime: responseTime)
    }

    /// The same by another clock: ages stay what they are.
    /// - Parameter milliseconds: by how much that is ahead.
    public mutating func shift(by milliseconds: Int64) {
        func shifted(_ time: Timestamp) -> Timestamp { Timestamp(milliseconds: time.milliseconds + milliseconds) }
        (requestTime, responseTime, date) = (shifted(requestTime), shifted(responseTime), shifted(date))
    }

    /// The same, stale from now on: a request of this order has told that what it represents has changed.
    public func stale(since order: SentOrder) -> StoredMetadata {
        var stale = self
        stale.freshnessLifetime = 0
        stale.order = order
        // The order is that of a request now.
        stale.flags.subtract(StoredFlags.countsAsStale.union(.imported))
        return stale
    }

    /// Who said how long it is fresh.
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

    /// An error that is kept for a moment, so that it is not asked for each time: it never takes the place of anything good.
    public var isNegative: Bool { lifetimeSource == .negative }

    public var hasValidator: Bool { !etag.isEmpty || !lastModified.isEmpty }

    private static let version: UInt8 = 1
    /// Without what older versions did not write.
    public static let encodedBytes = 88
    private static let likenessPlace = encodedBytes

    public static func kind(of bytes: UnsafeRawBufferPointer) -> StoredKind? {
        bytes.count >= 2 && bytes[0] == version ? StoredKind(rawValue: bytes[1]) : nil
    }

    /// - Parameter kind: of a whole response, or of one that lies beside it.
    public func encoded(as kind: StoredKind = .response) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: Self.likenessPlace + 8)
        out.withUnsafeMutableBytes { bytes in
            bytes[0] = Self.version
            bytes[1] = kind.rawValue
            bytes.storeBytes(of: status.rawValue.littleEndian, toByteOffset: 2, as: UInt16.self)
            bytes.storeBytes(of: flags.rawValue.littleEndian, toByteOffset: 4, as: UInt32.self)
            func store(_ number: Int64, _ index: Int) {
                bytes.storeBytes(of: number.littleEndian, toByteOffset: 8 + index * 8, as: Int64.self)
            }
            func store(place: Int, _ index: Int) {
                bytes.storeBytes(of: UInt32(place).littleEndian, toByteOffset: 64 + index * 4, as: UInt32.self)
            }
            store(requestTime.milliseconds, 0)
            store(responseTime.milliseconds, 1)
            store(date.milliseconds, 2)
            store(ageValue, 3)
            store(freshnessLifetime ?? -1, 4)
            store(staleIfError ?? -1, 5)
            store(staleWhileRevalidate ?? -1, 6)
            store(place: etag.lowerBound, 0)
            store(place: etag.upperBound, 1)
            store(place: lastModified.lowerBound, 2)
            store(place: lastModified.upperBound, 3)
            bytes.storeBytes(of: order.number.littleEndian, toByteOffset: 80, as: UInt64.self)
            bytes.storeBytes(of: likeness.littleEndian, toByteOffset: Self.likenessPlace, as: UInt64.self)
        }
        return out
    }

    /// Milliseconds around 1970, and seconds, beyond which no number was ever written: 285,000 years each. What is damaged may say anything, and
    /// sums of it must not overflow.
    private static let (timeLimit, secondsLimit): (Int64, Int64) = (1 << 53, 1 << 43)

    /// nil where the bytes are not a stored response of this version and kind, or damaged so that one cannot count with them.
    public init?(_ bytes: UnsafeRawBufferPointer, as kind: StoredKind = .response) {
        let hasLikeness = bytes.count >= Self.likenessPlace + 8
        guard hasLikeness || bytes.count == Self.encodedBytes, Self.kind(of: bytes) == kind else { return nil }
        func number(_ index: Int) -> Int64 { Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8 + index * 8, as: Int64.self)) }
        func offset(_ index: Int) -> Int {
            Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 64 + index * 4, as: UInt32.self)))
        }
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
        status = Status(rawValue: UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self)))
        flags = StoredFlags(rawValue: UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self)))
        guard offset(0) <= offset(1), offset(2) <= offset(3) else { return nil }
        etag = offset(0)..<offset(1)
        lastModified = offset(2)..<offset(3)
        order = SentOrder(number: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 80, as: UInt64.self)))
        if hasLikeness {
            likeness = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: Self.likenessPlace, as: UInt64.self))
        }
    }

    // MARK: The other kinds

    /// - Parameters:
    ///   - generation: part of each variant's key, so that a marker of another generation leaves all older variants behind.
    ///   - recency: that of the latest response under it.
    ///   - replaced: that of the latest response whose place this generation took: nothing that is older gets under it.
    ///   - best: what the best of its variants is.
    public static func varyMarker(
        generation: UInt64, _ recency: Recency, replaced: Recency? = nil, best: LastGood.Worth? = nil
    ) -> [UInt8] {
        var out = plain(.varyMarker, generation, [recency] + (replaced.map { [$0] } ?? []))
        out[bestVariantPlace] = best?.rawValue ?? 0
        return out
    }

    private static let bestVariantPlace = 3

    /// nil where nobody knows: older versions wrote none.
    public static func bestVariant(in marker: UnsafeRawBufferPointer) -> LastGood.Worth? {
        kind(of: marker) == .varyMarker && marker.count > bestVariantPlace ? LastGood.Worth(rawValue: marker[bestVariantPlace]) : nil
    }

    public static func invalidation(at time: Timestamp) -> [UInt8] { plain(.invalidation, UInt64(bitPattern: time.milliseconds), []) }

    /// - Parameters:
    ///   - generation: part of the keys of what was said so, as with a marker.
    ///   - recency: that of the latest response that said so.
    public static func searchVariance(generation: UInt64, _ recency: Recency) -> [UInt8] { plain(.searchVariance, generation, [recency]) }

    public static let cookieOrigins = plain(.cookieOrigins, 0, [])

    /// The generation of a marker or a variance, or the time of an invalidation in milliseconds.
    public static func number(in bytes: UnsafeRawBufferPointer) -> UInt64? {
        bytes.count >= 16 ? UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)) : nil
    }

    private static let plainBytes = 16
    /// Of each recency behind it. Older versions wrote none.
    private static let recencyBytes = 24

    private static func plain(_ kind: StoredKind, _ number: UInt64, _ recencies: [Recency]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: plainBytes + recencies.count * recencyBytes)
        out[0] = version
        out[1] = kind.rawValue
        // A bit for each.
        for (index, recency) in recencies.enumerated() where recency.isImported { out[2] |= 1 << UInt8(index) }
        let numbers = [number] + recencies.flatMap { [$0.order.number, bits($0.requestTime), bits($0.responseTime)] }
        out.withUnsafeMutableBytes { bytes in
            for (index, number) in numbers.enumerated() {
                bytes.storeBytes(of: number.littleEndian, toByteOffset: 8 + index * 8, as: UInt64.self)
            }
        }
        return out
    }

    private static func bits(_ time: Timestamp) -> UInt64 { UInt64(bitPattern: time.milliseconds) }

    /// Of any stored item; nil where it tells none, and so counts as older than all.
    public static func recency(of bytes: UnsafeRawBufferPointer) -> Recency? {
        switch kind(of: bytes) {
        case .response: StoredMetadata(bytes)?.recency
        case .varyMarker, .searchVariance: recency(0, in: bytes)
        case .invalidation, .cookieOrigins, .gone, nil: nil
        }
    }

    /// What a marker of Vary took the place of; nil where that was nothing.
    public static func replacedRecency(in bytes: UnsafeRawBufferPointer) -> Recency? {
        kind(of: bytes) == .varyMarker ? recency(1, in: bytes) : nil
    }

    private static func recency(_ index: Int, in bytes: UnsafeRawBufferPointer) -> Recency? {
        let start = plainBytes + index * recencyBytes
        guard bytes.count >= start + recencyBytes else { return nil }
        func number(_ index: Int) -> UInt64 {
            UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: start + index * 8, as: UInt64.self))
        }
        func time(_ index: Int) -> Timestamp { Timestamp(milliseconds: Int64(bitPattern: number(index))) }
        return Recency(
            order: SentOrder(number: number(0)), isImported: bytes[2] & 1 << UInt8(index) != 0, requestTime: time(1), responseTime: time(2))
    }
}
