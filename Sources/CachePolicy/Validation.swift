// Asking whether a stored response still holds (RFC 9111 §4.3), and bringing it up to date with the 304 that says so (§3.2).

import HTTPCore

public enum Validation {
    /// Puts the stored validators in the place of the client's own conditions, which are answered here afterwards.
    public static func addConditions(to fields: inout Fields, stored: StoredMetadata, head: UnsafeRawBufferPointer) {
        removeConditions(from: &fields)
        if !stored.flags.contains(.ownTag), let tag = slice(head, stored.etag) {
            // The upstream knows the tag as it sent it.
            let original = stored.flags.contains(.weakenedETag) ? Array(tag.dropFirst(2)) : tag
            fields.append(.ifNoneMatch, original)
        }
        if let date = slice(head, stored.lastModified) { fields.append(.ifModifiedSince, date) }
    }

    public static func removeConditions(from fields: inout Fields) {
        fields.remove(.ifNoneMatch)
        fields.remove(.ifModifiedSince)
    }

    /// RFC 9110 §15.3.7, §15.4.5: 206 and 304 answer ranges and conditions; where there were none, they are no response.
    /// - Parameter request: the fields that were sent.
    public static func isUnasked(_ status: Status, request: KnownFieldSet) -> Bool {
        switch status {
        case 206: !request.contains(.range)
        case 304: !request.contains(.ifNoneMatch) && !request.contains(.ifModifiedSince)
        default: false
        }
    }

    /// §4.3.4: whether a 304 speaks of this stored response: its tag, or without one its date, where it has one, is the stored one. One
    /// without any responses the only condition that was asked. A strong tag is that of a response with the same strong tag, to the letter;
    /// servers that weaken their tags for coded content forget to do so in a 304, and mean the same.
    public static func applies(
        _ response: ResponseHead, to stored: StoredMetadata, head: UnsafeRawBufferPointer, strictness: Strictness
    ) -> Bool {
        let ownTag = stored.flags.contains(.ownTag) ? nil : slice(head, stored.etag)
        if let tag = response.fields.first(.etag) {
            guard let ownTag, Preconditions.weaklyEqual(tag, ownTag[...]) else { return false }
            let isStrong = ownTag.first == 0x22 || stored.flags.contains(.weakenedETag)
            return isStrong || tag.first != 0x22 || strictness == .rescue
        }
        guard ownTag == nil, let date = response.fields.first(.lastModified), let own = slice(head, stored.lastModified) else {
            return true
        }
        return date == own[...]
    }

    /// Whether two stored responses have the same validator, and so are one version of what they represent: what confirms one confirms the
    /// other.
    public static func areOfOneVersion(
        _ one: StoredMetadata, head oneHead: UnsafeRawBufferPointer, _ other: StoredMetadata, head otherHead: UnsafeRawBufferPointer
    ) -> Bool {
        let tags = (slice(oneHead, one.etag), slice(otherHead, other.etag))
        if tags.0 != nil || tags.1 != nil { return tags.0 == tags.1 }
        let date = slice(oneHead, one.lastModified)
        return date != nil && date == slice(otherHead, other.lastModified)
    }

    /// The stored head with the 304's fields in the place of its own, except those that describe the stored content (§3.2).
    /// - Parameters:
    ///   - stored: with the length of its content.
    ///   - recency: of what comes of it.
    public static func freshened(
        _ stored: (metadata: StoredMetadata, head: UnsafeRawBufferPointer, contentBytes: Int), by response: ResponseHead,
        _ recency: Recency, settings: CachePolicySettings
    ) -> (bytes: [UInt8], metadata: StoredMetadata)? {
        guard var merged = StoredHead.parse(stored.head) else { return nil }
        var kept: [KnownField] = [.contentLength, .contentEncoding, .contentRange, .etag, .transferEncoding]
        // What was checked as JSON stays JSON.
        let type = MediaType(of: response.fields)
        if (type?.isJSON ?? false) != stored.metadata.flags.contains(.isJSON) { kept.append(.contentType) }
        var replaced: [[UInt8]] = []
        // RFC 9110 §6.6.1: a response without a date was made when it came. The stored date would make it as old as the first one.
        if !response.fields.contains(.date) { merged.fields.remove(.date) }
        for index in 0..<response.fields.count {
            if let known = response.fields.entries[index].known, kept.contains(known) { continue }
            let name = Array(response.fields.name(at: index))
            let folded = name.map(\.asciiLowercased)
            if StoredHead.isDigest(folded) { continue }
            if !replaced.contains(folded) {
                merged.fields.remove(named: name.span)
                replaced.append(folded)
            }
            let value = Array(response.fields.value(at: index))
            merged.fields.append(name: name.span, value: value.span)
        }
        // An Age that the 304 does not carry is not the stored one's: it was measured then.
        let control = ResponseCacheControl(merged.fields, targeted: settings.targetedFields)
        let received = ReceivedResponse(
            merged, control: control, contentBytes: stored.contentBytes, requestTime: recency.requestTime,
            responseTime: recency.responseTime)
        var (bytes, metadata) = StoredHead.make(received, settings: settings)
        metadata.flags.formUnion(
            stored.metadata.flags.intersection([.weakenedETag, .isJSON, .isLenient, .ownTag, .authorized, .cameCoded, .isOpen]))
        (metadata.order, metadata.likeness) = (recency.order, stored.metadata.likeness)
        return (bytes, metadata)
    }

    /// What a 200 to HEAD says of the stored response to GET (§4.3.5).
    public enum HeadUpdate: Sendable, Equatable {
        /// It still holds, and what HEAD brought takes the place of its fields.
        case freshen
        /// The resource has changed: what is stored counts as stale.
        case stale
        /// There is no validator by which that could be told.
        case nothing
    }

    /// - Parameter strictness: by the letter, what has no validator and the same length holds too; else that is no proof.
    public static func update(
        _ stored: StoredMetadata, head: UnsafeRawBufferPointer, by response: ResponseHead, contentBytes: Int, strictness: Strictness
    ) -> HeadUpdate {
        guard response.status == 200 else { return .nothing }
        guard stored.status == 200, fits(response, stored: stored, head: head, contentBytes: contentBytes) else { return .stale }
        let isOwnTag = stored.flags.contains(.ownTag)
        let hasValidator = !isOwnTag && response.fields.contains(.etag) || response.fields.contains(.lastModified)
        return hasValidator || strictness == .strict ? .freshen : .nothing
    }

    /// §4.3.5: whether what a HEAD brought still fits the stored response to GET: nothing that both of them say differs.
    static func fits(_ response: ResponseHead, stored: StoredMetadata, head: UnsafeRawBufferPointer, contentBytes: Int) -> Bool {
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

    static func slice(_ head: UnsafeRawBufferPointer, _ range: Range<Int>) -> [UInt8]? {
        range.isEmpty || range.upperBound > head.count ? nil : Array(head[range])
    }
}
