// Entity tags that Cistern makes or changes (RFC 9110 §8.8.3). Their form identifies them, so the upstream receives only tags that it knows.

import HTTPCore

public enum EntityTag {
    /// The end of a tag that Cistern weakened. A tag of the upstream may end like this too if it is strong.
    private static let weakenedEnd: StaticString = "~cistern\""
    /// The start of a tag computed from the data, without `W/`.
    private static let ownStart: StaticString = "\"cistern~"
    private static let weakStart: StaticString = "W/"

    /// Appends the weak form of a strong tag, for content in another coding. A strong tag promises the upstream's bytes.
    public static func appendWeakened(_ tag: Span<UInt8>, to out: inout [UInt8]) {
        out.append(weakStart)
        out.append(copying: tag.extracting(..<(tag.count - (tag.count > 1 && tag[tag.count - 1] == 0x22 ? 1 : 0))))
        out.append(weakenedEnd)
    }

    /// Returns the weak tag of the digest of a JSON text.
    public static func own(of digest: Span<UInt8>) -> [UInt8] {
        var tag: [UInt8] = []
        tag.reserveCapacity(48)
        tag.append(weakStart)
        tag.append(ownStart)
        ContentHash.appendHex(of: digest, to: &tag)
        tag.append(0x22)
        return tag
    }

    /// Returns the strong tag of the upstream for a tag that Cistern weakened, and other tags unchanged.
    public static func upstream(_ tag: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let end = weakenedEnd.utf8CodeUnitCount
        guard isWeak(tag), tag.count > 2 + end, tag.suffix(end).equals(weakenedEnd) else { return tag }
        return tag.dropFirst(2).dropLast(end) + [0x22]
    }

    public static func isWeak(_ tag: ArraySlice<UInt8>) -> Bool { tag.prefix(2).equals(weakStart) }

    fileprivate static func isOwn(_ tag: ArraySlice<UInt8>) -> Bool {
        let (opaque, start) = (isWeak(tag) ? tag.dropFirst(2) : tag, ownStart.utf8CodeUnitCount)
        return opaque.count == start + ContentHash.hexDigits + 1 && opaque.prefix(start).equals(ownStart)
    }
}

extension Fields {
    /// Replaces the client's tags in a precondition by those that the upstream knows. If-Match loses Cistern's own tags, which clients
    /// would not have without Cistern. If-Range is never translated: its range refers to the client's bytes, not to the upstream's.
    /// - Parameter current: the tag of the target's stored response; nil if nothing is known. An own tag that differs remains in If-Match,
    ///   because the write would overwrite a change that the client has not seen.
    public mutating func translateTags(in field: KnownField, current: @autoclosure () -> [UInt8]? = nil) {
        guard contains(field), !FieldListLimit.isExceeded(by: field, in: self) else { return }
        let tags = all(field).flatMap { FieldMembers(of: $0, hasEscapes: false) }
        let current = field == .ifMatch && tags.contains(where: EntityTag.isOwn) ? current() : nil
        let isCurrent = current.map { current in tags.contains { $0.elementsEqual(current) } } ?? true
        let known = tags.filter { field != .ifMatch || !isCurrent || !EntityTag.isOwn($0) }.map(EntityTag.upstream)
        guard known != tags else { return }
        if known.isEmpty { remove(field) } else { set(field, Array(known.joined(separator: ", ".utf8))) }
    }
}

extension ResponseHead {
    /// Returns a 304 of the upstream with the weakened tag, if the client's precondition has it: the client stored the response with it.
    public func withTag(knownTo request: Fields) -> ResponseHead {
        guard status == 304, let tag = fields.first(.etag), tag.first == 0x22 else { return self }
        var weakened: [UInt8] = []
        EntityTag.appendWeakened(tag.span, to: &weakened)
        guard request.all(.ifNoneMatch).contains(where: { FieldMembers(of: $0, hasEscapes: false).contains(weakened[...]) }) else {
            return self
        }
        var head = self
        head.fields.set(.etag, weakened)
        return head
    }
}
