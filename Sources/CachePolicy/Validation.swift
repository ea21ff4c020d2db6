// Validates stored responses (RFC 9111 §4.3), and updates them with the fields of a 304 (§3.2).

import Forwarding
import HTTPCore

public enum Validation {
    /// Whether the stored response has a strong entity tag, which no other representation of the resource has (RFC 9110 §8.8.1).
    public static func hasStrongTag(_ stored: StoredMetadata, head: Span<UInt8>) -> Bool {
        upstreamTag(stored, head: head)?.first == 0x22
    }

    /// The entity tag that the upstream sent; nil if it sent none.
    static func upstreamTag(_ stored: StoredMetadata, head: Span<UInt8>) -> ArraySlice<UInt8>? {
        guard !stored.flags.contains(.ownTag), let tag = slice(head, stored.etag)?[...] else { return nil }
        return stored.flags.contains(.weakenedETag) ? original(ofWeakened: tag) : tag
    }

    /// The strong tag of the upstream for a stored tag with the flag `weakenedETag`. Earlier versions stored such tags without a mark.
    public static func original(ofWeakened tag: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let tag = EntityTag.upstream(tag)
        return EntityTag.isWeak(tag) ? tag.dropFirst(2) : tag
    }

    /// Replaces the client's conditions by the stored validators. The client's conditions are evaluated against the result afterwards. A
    /// Last-Modified in the second of the response is not used alone: the content may have changed in this second (RFC 9110 §8.8.2.2).
    public static func addConditions(to fields: inout Fields, stored: StoredMetadata, head: Span<UInt8>) {
        removeConditions(from: &fields)
        let tag = upstreamTag(stored, head: head)
        if let tag { fields.append(.ifNoneMatch, tag.span) }
        guard let date = slice(head, stored.lastModified) else { return }
        let seconds = tag == nil ? HTTPDate.parse(date[...], now: stored.date.seconds) : nil
        if seconds ?? .min < stored.date.seconds { fields.append(.ifModifiedSince, date) }
    }

    public static func removeConditions(from fields: inout Fields) {
        fields.remove(.ifNoneMatch)
        fields.remove(.ifModifiedSince)
    }

    /// Returns whether a part in bytes, or a 304, responds to a request without a range or a condition (RFC 9110 §15.3.7, §15.4.5). Such a
    /// response is invalid. A 206 in another unit is complete in itself: PostgREST and others send pages as `items 0-9/20`.
    /// - Parameter request: the fields that were sent.
    public static func isUnasked(_ response: ResponseHead, request: KnownFieldSet) -> Bool {
        switch response.status {
        case 206: !request.contains(.range) && isPartInBytes(response) == true
        case 304: !request.contains(.ifNoneMatch) && !request.contains(.ifModifiedSince)
        default: false
        }
    }

    /// Returns whether the content is a part in bytes, or several; nil if neither type nor Content-Range say so.
    static func isPartInBytes(_ response: ResponseHead) -> Bool? {
        if response.fields.first(.contentType)?.trimmed.prefix(20).equalsIgnoringCase("multipart/byteranges") == true { return true }
        return response.fields.first(.contentRange).map { $0.trimmed.prefix(5).equalsIgnoringCase("bytes") }
    }

    /// Returns whether a 304 applies to this stored response (§4.3.4). Its entity tag, or without one its Last-Modified, must match; a 304
    /// without validators applies to the only response that was validated. Under `strict`, a strong tag requires a stored strong tag. Under
    /// `rescue` it does not: servers that weaken tags for coded content often forget to do so in a 304.
    public static func applies(
        _ response: ResponseHead, to stored: StoredMetadata, head: Span<UInt8>, strictness: Strictness
    ) -> Bool {
        let known = upstreamTag(stored, head: head)
        if let tag = response.fields.first(.etag) {
            guard let known, Preconditions.weaklyEqual(tag, known) else { return false }
            return known.first == 0x22 || tag.first != 0x22 || strictness == .rescue
        }
        guard known == nil, let date = response.fields.first(.lastModified), let own = slice(head, stored.lastModified) else {
            return true
        }
        return date == own[...]
    }

    /// Returns whether two stored responses have equal validators and are one version: a confirmation of one confirms the other.
    public static func areOfOneVersion(
        _ one: StoredMetadata, head oneHead: Span<UInt8>, _ other: StoredMetadata, head otherHead: Span<UInt8>
    ) -> Bool {
        let tags = (slice(oneHead, one.etag), slice(otherHead, other.etag))
        if tags.0 != nil || tags.1 != nil { return tags.0 == tags.1 }
        let date = slice(oneHead, one.lastModified)
        return date != nil && date == slice(otherHead, other.lastModified)
    }

    /// Returns the stored head updated with the fields of a 304, except those that describe the stored content (§3.2). nil if the stored
    /// head cannot be parsed.
    /// - Parameters:
    ///   - contentBytes: length of the stored content.
    ///   - recency: recency of the result.
    public static func freshened(
        _ stored: StoredMetadata, head: Span<UInt8>, contentBytes: Int, by response: ResponseHead, _ recency: Recency,
        settings: CachePolicySettings
    ) -> (bytes: [UInt8], metadata: StoredMetadata)? {
        guard var merged = StoredHead.parse(head) else { return nil }
        if stored.flags.contains(.weakenedETag), let tag = upstreamTag(stored, head: head) {
            StoredHead.setWeakened(tag, in: &merged.fields)
        }
        var kept: KnownFieldSet = [.contentLength, .contentEncoding, .contentRange, .etag, .transferEncoding]
        // JSON content keeps a JSON type, and other content keeps a type other than JSON.
        let type = MediaType(of: response.fields)
        if (type?.isJSON ?? false) != stored.flags.contains(.isJSON) { kept.insert(.contentType) }
        // RFC 9110 §6.6.1: a 304 without Date was generated when it was received. The stored Date would make the response too old.
        if !response.fields.contains(.date) { merged.fields.remove(.date) }
        merged.fields.replace(byLinesOf: response.fields) { entry in
            !kept.holds(entry) && !StoredHead.isDigest(response.fields.bytes.span.extracting(entry.nameRange))
        }
        // A missing Age in the 304 is not taken from the stored response, because that value was measured earlier.
        let control = ResponseCacheControl(merged.fields, targeted: settings.targetedFields)
        let received = ReceivedResponse(
            merged, control: control, contentBytes: contentBytes, requestTime: recency.requestTime,
            responseTime: recency.responseTime)
        var (bytes, metadata) = StoredHead.make(received, settings: settings)
        metadata.flags.formUnion(
            stored.flags.intersection([.weakenedETag, .isJSON, .isLenient, .ownTag, .authorized, .cameCoded, .isOpen]))
        (metadata.order, metadata.likeness, metadata.negotiation) = (recency.order, stored.likeness, stored.negotiation)
        return (bytes, metadata)
    }

    /// Effect of a 200 to HEAD on the stored response to GET (§4.3.5).
    public enum HeadUpdate: Sendable, Equatable {
        /// The stored response is still valid and takes the fields of the HEAD response.
        case freshen
        /// The resource has changed: the stored response becomes stale.
        case stale
        /// There is no validator to compare.
        case nothing
    }

    /// - Parameter strictness: under `strict`, equal lengths without a validator confirm the response; under `rescue` they do not.
    public static func update(
        _ stored: StoredMetadata, head: Span<UInt8>, by response: ResponseHead, contentBytes: Int, strictness: Strictness
    ) -> HeadUpdate {
        guard response.status == 200 else { return .nothing }
        guard stored.status == 200, fits(response, stored: stored, head: head, contentBytes: contentBytes) else { return .stale }
        let hasValidator = !stored.flags.contains(.ownTag) && response.fields.contains(.etag) || response.fields.contains(.lastModified)
        return hasValidator || strictness == .strict ? .freshen : .nothing
    }

    /// §4.3.5: returns whether the HEAD response is consistent with the stored response to GET: no field that both have differs.
    static func fits(_ response: ResponseHead, stored: StoredMetadata, head: Span<UInt8>, contentBytes: Int) -> Bool {
        if let length = response.fields.first(.contentLength), !response.fields.contains(.contentEncoding),
            length != Array(String(contentBytes).utf8)[...]
        {
            return false
        }
        if let tag = response.fields.first(.etag), !stored.flags.contains(.ownTag) {
            guard let own = slice(head, stored.etag), Preconditions.weaklyEqual(tag, own[...]) else { return false }
        }
        if let date = response.fields.first(.lastModified) {
            guard let own = slice(head, stored.lastModified), date == own[...] else { return false }
        }
        return true
    }

    static func slice(_ head: Span<UInt8>, _ range: Range<Int>) -> [UInt8]? {
        range.isEmpty || range.upperBound > head.count ? nil : Array(copying: head.extracting(range))
    }
}
