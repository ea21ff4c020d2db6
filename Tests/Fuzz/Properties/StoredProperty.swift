// Data in the store may be damaged, because lists do not verify content checksums. Any metadata and heads can be parsed and used without a
// trap. Encoded metadata and heads are decoded unchanged.

import CachePolicy
import HTTPCore

enum StoredProperty {
    private static let now = Timestamp(seconds: 1_700_000_000)

    /// The input is metadata of fixed length, followed by a head.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let metadata = bytes.prefix(StoredMetadata.encodedBytes)
        let head = Array(bytes.dropFirst(metadata.count))
        let parsed = StoredHead.parse(head.span)
        _ = NegotiatedHead.make(head.span, NegotiatedHead.Coded(.gzip))
        _ = StoredHead.partial(head.span, 0..<1, of: 2)
        var kind = Array(metadata)
        // Sets version and kind, because most values would be refused at once.
        if kind.count > 1 { (kind[0], kind[1]) = (1, StoredKind.response.rawValue) }
        if let read = StoredMetadata(kind.span) {
            try count(read, head)
            _ = negotiated(head, read)
        }
        if let parsed { try checkMade(parsed) }
    }

    private static func count(_ read: StoredMetadata, _ head: [UInt8]) throws(Violation) {
        let encoded = read.encoded()
        let again = StoredMetadata(encoded.span)
        try expect(again == read, "metadata is decoded differently")
        let age = Freshness.currentAge(of: read, now: now)
        _ = (read.freshnessLifetime ?? 0) - age
        _ = (Freshness.apparentAge(of: read), Freshness.responseDelay(of: read), Freshness.ageEnds(of: read, now: now))
        _ = Freshness.isAgeUnknown(of: read, now: now)
        _ = Reuse.decide(read, RequestCacheControl(), now: now)
        _ = RFC3339.format(milliseconds: read.responseTime.milliseconds)
        var request = Fields()
        request.append(.range, "bytes=0-")
        request.append(.ifRange, "\"a\"")
        _ = RangeRequest(request, count: 9, stored: read, head: head.span)
    }

    private static func negotiated(_ head: [UInt8], _ metadata: StoredMetadata) -> [UInt8] {
        var out: [UInt8] = []
        NegotiatedHead.append(head.span, metadata, NegotiatedHead.Coded(.gzip, contentBytes: 5), to: &out)
        return out
    }

    private static func lines(of head: [UInt8]) -> [ArraySlice<UInt8>] {
        head.split(separator: 0x0a).sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Stores a response with this head and reads it back.
    private static func checkMade(_ head: ResponseHead) throws(Violation) {
        let fields = head.fields
        let isPlain = (0..<fields.count).allSatisfy {
            !fields.name(at: $0).isEmpty && fields.name(at: $0).allSatisfy(isTokenByte)
                && fields.value(at: $0).allSatisfy(isFieldValueByte) && fields.value(at: $0).elementsEqual(fields.value(at: $0).trimmed)
        }
        guard isPlain, (200...599).contains(head.status.rawValue), head.reason.allSatisfy(isFieldValueByte) else { return }
        let received = ReceivedResponse(
            head, control: ResponseCacheControl(fields), contentBytes: 7, requestTime: now, responseTime: now)
        let (bytes, metadata) = StoredHead.make(received, settings: CachePolicySettings())
        // The fast path, which does not parse the head, has the result of the slow path.
        let slow = NegotiatedHead.make(bytes.span, NegotiatedHead.Coded(.gzip, contentBytes: 5))
        try expect(lines(of: negotiated(bytes, metadata)) == lines(of: slow), "the negotiated head differs from the slow path")
        guard let again = StoredHead.parse(bytes.span) else {
            throw Violation(description: "a stored head cannot be decoded")
        }
        try expect(again.status == head.status, "a status is decoded differently")
        if metadata.etag.count > 0 {
            try expect(again.fields.first(.etag).map { Array($0) } == Array(bytes[metadata.etag]), "the entity tag's range is wrong")
        }
        let encoded = metadata.encoded()
        let read = StoredMetadata(encoded.span)
        try expect(read == metadata, "metadata is decoded differently")
    }
}
