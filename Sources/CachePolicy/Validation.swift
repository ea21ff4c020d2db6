// Asking whether a stored response still holds (RFC 9111 §4.3), and bringing it up to date with the 304 that says so (§3.2).

import HTTPCore

package enum Validation {
    /// Puts the stored validators in the place of the client's own conditions, which are answered here afterwards.
    package static func addConditions(to fields: inout Fields, stored: StoredMetadata, head: UnsafeRawBufferPointer) {
        fields.remove(.ifNoneMatch)
        fields.remove(.ifModifiedSince)
        if !stored.flags.contains(.ownTag), let tag = slice(head, stored.etag) {
            // The upstream knows the tag as it sent it.
            let original = stored.flags.contains(.weakenedETag) ? Array(tag.dropFirst(2)) : tag
            fields.append(.ifNoneMatch, original)
        }
        if let date = slice(head, stored.lastModified) { fields.append(.ifModifiedSince, date) }
    }

    /// §4.3.4: whether a 304 speaks of this stored response: its tag, where it has one, is the stored one.
    package static func applies(_ response: ResponseHead, to stored: StoredMetadata, head: UnsafeRawBufferPointer) -> Bool {
        guard let tag = response.fields.first(.etag) else { return true }
        guard !stored.flags.contains(.ownTag), let own = slice(head, stored.etag) else { return false }
        return Preconditions.weaklyEqual(tag, own[...])
    }

    /// The stored head with the 304's fields in the place of its own, except those that describe the stored content (§3.2).
    /// - Parameters:
    ///   - contentBytes: the length of the content as stored.
    package static func freshened(
        _ stored: StoredMetadata, head: UnsafeRawBufferPointer, by response: ResponseHead, contentBytes: Int, requestTime: Timestamp,
        responseTime: Timestamp, settings: CachePolicySettings
    ) -> (bytes: [UInt8], metadata: StoredMetadata)? {
        guard var merged = StoredHead.parse(head) else { return nil }
        let kept: [KnownField] = [.contentLength, .contentEncoding, .contentType, .contentRange, .etag, .transferEncoding]
        var replaced: [[UInt8]] = []
        // RFC 9110 §6.6.1: an answer without a date was made when it came. The stored date would make it as old as the first one.
        if !response.fields.contains(.date) { merged.fields.remove(.date) }
        for index in 0..<response.fields.count {
            if let known = response.fields.entries[index].known, kept.contains(known) { continue }
            let name = Array(response.fields.name(at: index))
            let folded = name.map(\.asciiLowercased)
            if !replaced.contains(folded) {
                merged.fields.remove(named: name.span)
                replaced.append(folded)
            }
            let value = Array(response.fields.value(at: index))
            merged.fields.append(name: name.span, value: value.span)
        }
        // An Age that the 304 does not carry is not the stored one's: it was measured then.
        let control = ResponseCacheControl(merged.fields, targeted: settings.targetedFields)
        var (bytes, metadata) = StoredHead.make(
            merged, control: control, contentBytes: contentBytes, isDecoded: false, requestTime: requestTime, responseTime: responseTime,
            settings: settings)
        metadata.flags.formUnion(stored.flags.intersection([.weakenedETag, .isJSON, .ownTag]))
        return (bytes, metadata)
    }

    /// §4.3.5: whether what a HEAD brought still fits the stored answer to GET: nothing that both of them say differs.
    package static func fits(_ response: ResponseHead, stored: StoredMetadata, head: UnsafeRawBufferPointer, contentBytes: Int) -> Bool {
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
