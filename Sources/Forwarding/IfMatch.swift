// Decides in which form entity tags in If-Match are forwarded. Clients may have tags that the upstream does not know: Cistern weakens a
// strong tag when it changes the coding of the content, and makes tags for responses without a validator.

import HTTPCore

/// What is known about the entity tag of a request's target.
public enum KnownTag: Sendable {
    /// The stored response has this tag of the upstream; empty if the upstream sent none.
    case upstream([UInt8])
    /// The stored response has this tag, which Cistern made.
    case own([UInt8])
    /// No stored response is in memory.
    /// - Parameter sendsWeakTags: whether the upstream has sent weak tags, so that a weak tag may be its own.
    case unknown(sendsWeakTags: Bool)

    /// Returns the tags to forward; empty if the field must be removed.
    fileprivate func forwarded(_ tags: [ArraySlice<UInt8>]) -> [ArraySlice<UInt8>] {
        switch self {
        // A weak tag matches no If-Match (RFC 9110 §13.1.1), so a conditional write with it would always fail.
        case .upstream(let tag): tags.map { $0.isWeakTag && $0.opaqueTag == tag[...] ? $0.opaqueTag : $0 }
        case .unknown(sendsWeakTags: false): tags.map(\.opaqueTag)
        case .unknown(sendsWeakTags: true): tags
        // Without Cistern, the client would not have sent the tag. A tag of an earlier version remains, because the write would overwrite a
        // change that the client has not seen.
        case .own(let tag): tags.contains { $0.opaqueTag == tag[...].opaqueTag } ? [] : tags
        }
    }
}

extension Fields {
    /// Replaces entity tags in If-Match by those that the upstream knows.
    public mutating func translateIfMatch(_ known: KnownTag) {
        guard !FieldListLimit.isExceeded(by: .ifMatch, in: self) else { return }
        let tags = all(.ifMatch).flatMap { FieldMembers(of: $0, hasEscapes: false) }
        let forwarded = known.forwarded(tags)
        guard forwarded != tags else { return }
        if forwarded.isEmpty { remove(.ifMatch) } else { set(.ifMatch, Array(forwarded.joined(separator: ", ".utf8))) }
    }
}

extension ArraySlice<UInt8> {
    fileprivate var isWeakTag: Bool { starts(with: "W/\"".utf8) }

    fileprivate var opaqueTag: ArraySlice<UInt8> { isWeakTag ? dropFirst(2) : self }
}
