// The head of a stored response (RFC 9111 §3.1): selects the stored fields, and serializes them in the form that is sent to clients.

import Forwarding
import HTTPCore

/// A received response from which a stored response is made.
public struct ReceivedResponse {
    /// Without hop-by-hop fields.
    public let head: ResponseHead
    public let control: ResponseCacheControl
    /// Length of the content as stored, in bytes.
    public let contentBytes: Int
    public let requestTime: Timestamp
    public let responseTime: Timestamp
    /// True if the content coding was removed for storing.
    public var isDecoded = false
    /// Entity tag computed from the content, for a response without a validator; nil if there is none.
    public var ownTag: [UInt8]?
    /// Value to add to Via; nil if none.
    public var via: [UInt8]?

    public init(
        _ head: ResponseHead, control: ResponseCacheControl, contentBytes: Int, requestTime: Timestamp, responseTime: Timestamp
    ) {
        self.head = head
        self.control = control
        self.contentBytes = contentBytes
        self.requestTime = requestTime
        self.responseTime = responseTime
    }
}

public enum StoredHead {
    /// Fields that are not stored. Age, Content-Length and Cistern-Stale are computed for each use, Proxy-Status concerns one exchange, and
    /// the upstream's alternative addresses are hidden from clients.
    private static let dropped: KnownFieldSet = [.age, .altSvc, .alternateProtocol, .cisternStale, .contentLength, .proxyStatus]

    public static func make(_ received: ReceivedResponse, settings: CachePolicySettings) -> (bytes: [UInt8], metadata: StoredMetadata) {
        let read = received.control.asRead(by: settings)
        let control = settings.freshness.applied(to: read)
        var fields = received.head.fields
        for name in control.unstoredFields { fields.remove(named: name.span) }
        if settings.strictness == .rescue { MomentaryFields.remove(from: &fields, received.head.status) }
        if settings.setCookie != .keep { ResponseCredentials.remove(from: &fields) }
        // Only the first entity tag and date are used and sent.
        for validator in [KnownField.etag, .lastModified] where fields.only(validator) == nil {
            if let first = fields.first(validator) { fields.set(validator, Array(first)) }
        }
        let isWeakened = received.isDecoded && removeCoding(from: &fields)
        // An identity coding has no effect, and would conflict with the coding in which the content is sent.
        if ContentCoding(fields) == .identity { fields.remove(.contentEncoding) }
        let date = fields.first(.date).flatMap { HTTPDate.parse($0, now: received.responseTime.seconds) }
        var metadata = StoredMetadata(
            requestTime: received.requestTime, responseTime: received.responseTime,
            date: date.map { Timestamp(seconds: $0) } ?? received.responseTime)
        metadata.status = received.head.status
        metadata.flags = flags(control)
        if control != read { metadata.flags.insert(.disregarded) }
        if isWeakened { metadata.flags.insert(.weakenedETag) }
        if received.isDecoded { metadata.flags.insert(.cameCoded) }
        if !codedDigests.contains(where: { fields.contains(named: $0) }) { metadata.flags.insert(.hasNoDigests) }
        if variesByCoding(fields) { metadata.flags.insert(.variesByCoding) }
        let said = Freshness.lifetime(received.head.fields, received.control, date: metadata.date, now: received.responseTime.seconds)
        if UnknownFields.makeNoDifference(to: received.head.fields, received.control, lifetime: said) {
            metadata.flags.insert(.forAllFields)
        }
        if OriginGrant.isBound(fields) { metadata.flags.insert(.boundToOrigin) }
        if MediaType(of: received.head.fields)?.isJSON == true { metadata.flags.insert(.isJSON) }
        if ContentCoding(fields) != .identity { metadata.flags.insert(.coded) }
        if CacheTags.groups(of: fields, named: "cache-groups")?.isEmpty == false { metadata.flags.insert(.hasGroups) }
        if settings.targetedFields.contains(where: { fields.contains(named: $0.span) }) { metadata.flags.insert(.hasTargeted) }
        var omitted = dropped
        if date == nil { omitted.insert(.date) }
        let bytes = serialize(received, fields, without: omitted, &metadata)
        let stated = Freshness.lifetime(fields, control, date: metadata.date, now: received.responseTime.seconds)
        let heuristic =
            stated == nil ? Freshness.heuristic(fields, metadata.status, control, date: metadata.date, settings: settings) : nil
        (metadata.freshnessLifetime, metadata.lifetimeSource) =
            settings.freshness.lifetime(of: metadata.status, said: stated, heuristic: heuristic, control)
        metadata.staleIfError = control.staleIfError
        metadata.staleWhileRevalidate = control.staleWhileRevalidate ?? settings.freshness.staleWhileRevalidate
        metadata.ageValue = Freshness.ageValue(received.head.fields)
        return (bytes, metadata)
    }

    private static func flags(_ control: ResponseCacheControl) -> StoredFlags {
        var flags: StoredFlags = []
        if control.noCache { flags.insert(.noCache) }
        if control.mustRevalidate { flags.insert(.mustRevalidate) }
        if control.proxyRevalidate { flags.insert(.proxyRevalidate) }
        if control.sharedMaxAge != nil { flags.insert(.sharedMaxAge) }
        if control.immutable { flags.insert(.immutable) }
        if control.noTransform { flags.insert(.noTransform) }
        if control.isPublic { flags.insert(.isPublic) }
        return flags
    }

    /// Digests that cover the content coding (RFC 9530), and digests of the message content, which are wrong for a partial response.
    private static let codedDigests: [StaticString] = ["content-digest", "repr-digest", "digest", "content-md5"]
    private static let contentDigests: [StaticString] = ["content-digest", "content-md5"]

    static func isDigest(_ name: Span<UInt8>) -> Bool { codedDigests.contains { name.equalsIgnoringCase($0) } }

    /// Adjusts the fields after the content coding was removed or replaced. A strong tag promises the upstream's bytes (RFC 9110 §8.8.1),
    /// so it becomes weak.
    /// - Returns: whether the tag was weakened.
    @discardableResult
    public static func removeCoding(from fields: inout Fields) -> Bool {
        fields.remove(.contentEncoding)
        fields.remove(named: codedDigests)
        guard let tag = fields.first(.etag), tag.first == 0x22 else { return false }
        setWeakened(tag, in: &fields)
        return true
    }

    static func setWeakened(_ tag: ArraySlice<UInt8>, in fields: inout Fields) {
        var weakened: [UInt8] = []
        EntityTag.appendWeakened(tag.span, to: &weakened)
        fields.set(.etag, weakened)
    }

    private static func serialize(
        _ received: ReceivedResponse, _ fields: Fields, without omitted: KnownFieldSet, _ metadata: inout StoredMetadata
    ) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(fields.bytes.count + fields.count * 4 + (received.via?.count ?? 0) + ownBytes)
        ResponseSerializer.appendStatusLine(received.head.status, reason: received.head.reason, to: &out)
        noteValidators(of: fields, without: omitted, from: out.count, &metadata)
        FieldSerializer.append(fields, without: omitted, to: &out)
        if let via = received.via { FieldSerializer.append(.via, via, to: &out) }
        if omitted.contains(.date) { FieldSerializer.append(.date, HTTPDate.format(metadata.date.seconds), to: &out) }
        if let tag = received.ownTag, !fields.contains(.etag), !fields.contains(.lastModified) {
            FieldSerializer.append(.etag, tag, to: &out)
            metadata.flags.insert(.ownTag)
            metadata.etag = out.count - 2 - tag.count..<out.count - 2
        }
        // RFC 9110 §8.6: a 204 has no Content-Length.
        if !received.head.status.forbidsContent {
            out.append("Content-Length: ")
            out.append(decimal: received.contentBytes)
            out.append("\r\n")
        }
        return out
    }

    /// Upper bound for status line, Date, entity tag and Content-Length.
    private static let ownBytes = 256

    /// Records the ranges of the validators' values in the head.
    /// - Parameter start: offset of the first field line.
    private static func noteValidators(
        of fields: Fields, without omitted: KnownFieldSet, from start: Int, _ metadata: inout StoredMetadata
    ) {
        guard fields.containsAny(of: [.etag, .lastModified]) else { return }
        var position = start
        for entry in fields.entries where !omitted.holds(entry) {
            let value = position + Int(entry.nameLength) + 2..<position + Int(entry.nameLength) + 2 + Int(entry.valueLength)
            if entry.known == .etag, metadata.etag.isEmpty { metadata.etag = value }
            if entry.known == .lastModified, metadata.lastModified.isEmpty { metadata.lastModified = value }
            position = value.upperBound + 2
        }
    }

    /// Returns the head without the named fields.
    /// - Parameter names: in lower case.
    public static func removing(_ names: [[UInt8]], from stored: Span<UInt8>) -> [UInt8] {
        guard var head = parse(stored) else { return Array(copying: stored) }
        for name in names { head.fields.remove(named: name.span) }
        var out: [UInt8] = []
        ResponseSerializer.append(head, to: &out)
        return out
    }

    /// Removes the fields that are not stored here from the head of another node's record. Returns nil if it has none of them.
    /// - Parameter metadata: metadata of the head; its ranges are updated.
    public static func withoutUnstoredFields(
        _ stored: ResponseHead, _ metadata: inout StoredMetadata, settings: CachePolicySettings
    ) -> [UInt8]? {
        var fields = stored.fields
        fields.remove(allOf: [.altSvc, .alternateProtocol, .cisternStale])
        if settings.strictness == .rescue { MomentaryFields.remove(from: &fields, stored.status) }
        if settings.setCookie != .keep { ResponseCredentials.remove(from: &fields) }
        guard fields.count < stored.fields.count else { return nil }
        var out: [UInt8] = []
        ResponseSerializer.appendStatusLine(stored.status, reason: stored.reason, to: &out)
        (metadata.etag, metadata.lastModified) = (0..<0, 0..<0)
        noteValidators(of: fields, without: [], from: out.count, &metadata)
        FieldSerializer.append(fields, without: [], to: &out)
        return out
    }

    /// Returns the head with another Date of equal length; nil if the Date field is missing or has another length.
    public static func redated(_ stored: Span<UInt8>, _ date: Timestamp) -> [UInt8]? {
        guard let range = rangeOfDate(in: stored) else { return nil }
        var head = Array(copying: stored)
        for (index, byte) in zip(range, HTTPDate.format(date.seconds)) { head[index] = byte }
        return head
    }

    /// Returns the range of the Date field's value; nil if the field is missing, or has another length than the dates that Cistern writes.
    public static func rangeOfDate(in stored: Span<UInt8>) -> Range<Int>? {
        var start = 0
        while let end = stored.first(0x0a, from: start) {
            let line = start..<end
            start = end + 1
            guard line.count > 7, stored[line.lowerBound] | 0x20 == UInt8(ascii: "d"),
                stored.extracting(line.lowerBound..<line.lowerBound + 6).equalsIgnoringCase("date: ")
            else { continue }
            return line.count == 6 + HTTPDate.length + 1 ? line.lowerBound + 6..<end - 1 : nil
        }
        return nil
    }

    /// Returns the head of a partial response (RFC 9110 §15.3.7).
    public static func partial(_ stored: Span<UInt8>, _ range: Range<Int>, of count: Int) -> [UInt8] {
        remade(stored, status: 206, range: "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(count)", count: range.count)
    }

    /// Returns the head of a 416 (RFC 9110 §15.5.17).
    public static func unsatisfiable(_ stored: Span<UInt8>, count: Int) -> [UInt8] {
        remade(stored, status: 416, range: "bytes */\(count)", count: 0)
    }

    static func variesByCoding(_ fields: Fields) -> Bool {
        fields.contains(.vary) && FieldLists.contains(.vary, in: fields, where: { $0.equalsIgnoringCase("accept-encoding") })
    }

    private static func remade(_ stored: Span<UInt8>, status: Status, range: String, count: Int) -> [UInt8] {
        var fields = parse(stored)?.fields ?? Fields()
        fields.set(.contentLength, Array(String(count).utf8))
        fields.set(.contentRange, Array(range.utf8))
        if status == 416 { fields.remove(.contentType) }
        fields.remove(named: contentDigests)
        var out: [UInt8] = []
        ResponseSerializer.append(ResponseHead(status: status, fields: fields), to: &out)
        return out
    }

    /// Parses a head that `make` wrote; nil if the bytes are something else.
    public static func parse(_ bytes: Span<UInt8>) -> ResponseHead? {
        guard bytes.count > 13, let lineEnd = bytes.first(0x0d), lineEnd >= 13 else { return nil }
        var status: UInt16 = 0
        for index in 9..<12 {
            guard bytes[index].isASCIIDigit else { return nil }
            status = status * 10 + UInt16(bytes[index] - 0x30)
        }
        var fields = Fields()
        var start = lineEnd + 2
        while start < bytes.count {
            guard let end = bytes.first(0x0d, from: start), let colon = bytes.first(UInt8(ascii: ":"), from: start), colon < end else {
                return nil
            }
            fields.append(name: bytes.extracting(start..<colon), value: bytes.extracting(min(colon + 2, end)..<end))
            start = end + 2
        }
        let reason = Array(copying: bytes.extracting(13..<lineEnd))
        return ResponseHead(status: Status(rawValue: status), reason: reason, fields: fields)
    }
}
