// The request fields that are neither harmless nor credentials (`RequestFieldKinds`). An upstream may select a response by them without
// listing them in Vary. So requests that differ in them do not share responses, unless the upstream's fields say which requests a response
// is for. A path in another spelling than the cache key's counts as such a field.

import Forwarding
import HTTPCore

/// The unknown fields of one request. A class, because nearly no request has such fields and every request passes the reference along.
public final class UnknownFields: Sendable, Equatable {
    /// Keyed hash of `kept`; never 0.
    public let hash: UInt64
    /// Names and values that separate the request's stored responses, ordered by name. For a field that changes with each request, only the
    /// name.
    public let kept: [UInt8]
    /// All names and values, byte for byte. Two requests share a fetch only if these are equal.
    public let exact: [UInt8]
    /// Names of the fields that change with each request.
    public let changing: [[UInt8]]
    /// Whether the path is spelled in another way than in the cache key (`CacheKey.isCanonical`). The upstream may distinguish the
    /// spellings, so the request's responses never serve requests with other unknown fields.
    public let isOtherSpelling: Bool
    /// Fields that state the requested host, scheme or path, if the request has other unknown fields too; nil if it states none.
    private let hosts: UnknownFields?
    private let isOfHosts: Bool

    /// - Parameters:
    ///   - hosts: the fields that state the requested host, scheme or path; nil for none.
    ///   - isOfHosts: whether there are no other fields.
    public init(
        hash: UInt64, kept: [UInt8], exact: [UInt8], changing: [[UInt8]] = [], isOtherSpelling: Bool = false, hosts: UnknownFields? = nil,
        isOfHosts: Bool = false
    ) {
        self.hash = hash == 0 ? 1 : hash
        self.kept = kept
        self.exact = exact
        self.changing = changing
        (self.isOtherSpelling, self.hosts, self.isOfHosts) = (isOtherSpelling, hosts, isOfHosts)
    }

    /// The fields that select even among responses that serve all requests: an upstream may choose a tenant by the host.
    public var ofHosts: UnknownFields? { isOfHosts ? self : hosts }

    /// Returns these fields with other hashes.
    public func rehashed(_ hash: ([UInt8]) -> UInt64) -> UnknownFields {
        UnknownFields(
            hash: hash(kept), kept: kept, exact: exact, changing: changing, isOtherSpelling: isOtherSpelling,
            hosts: hosts?.rehashed(hash), isOfHosts: isOfHosts)
    }

    public static func == (one: UnknownFields, other: UnknownFields) -> Bool { one.hash == other.hash && one.exact == other.exact }

    /// Returns whether a response serves all requests with its cache key, whatever unknown fields they have. That holds if Vary names a
    /// field other than those that frameworks add automatically, or if the response permits shared caching.
    /// - Parameters:
    ///   - control: the upstream's Cache-Control, before the operator's changes.
    ///   - lifetime: freshness lifetime in seconds that the response itself gives; nil if it gives none.
    public static func makeNoDifference(to response: Fields, _ control: ResponseCacheControl, lifetime: Int64?) -> Bool {
        // A member that is not a field name is ignored.
        let namesOtherFields = FieldLists.contains(.vary, in: response) { member in
            member.allSatisfy(isTokenByte) && !isAddedByFrameworks(member.span)
        }
        guard !namesOtherFields else { return true }
        guard !control.isPrivate else { return false }
        // A malformed directive does not permit sharing.
        let hasSharedLifetime = control.sharedMaxAge != nil && !control.hasUnreadableSharedMaxAge
        return control.isPublic || hasSharedLifetime || lifetime ?? 0 > 0
    }

    /// Frameworks add fields with a general meaning to Vary of every response: those of CORS, content negotiation (Django REST framework,
    /// Rails) and sessions. They know nothing about an application's own fields.
    private static func isAddedByFrameworks(_ name: Span<UInt8>) -> Bool {
        if let known = KnownField(name), negotiation.contains(known) { return true }
        return general.kind(of: name) != .unknown
    }

    private static let negotiation: KnownFieldSet = [.accept, .acceptEncoding, .acceptLanguage, .cookie, .origin, .userAgent]
    private static let general = RequestFieldKinds(
        credentials: CredentialNames(["authorization", "cookie"]), harmless: WellKnownNames.harmlessFields)

    /// Name under which a path in another spelling is listed. No field has such a name.
    public static let path = Array(":path".utf8)

    // MARK: Cache keys

    /// Follows the target in the keys of responses that serve only requests with these unknown fields. No argument before it can have such
    /// a length.
    static let marker: [UInt8] = [UInt8(ascii: "H"), 0xff, 0xff, 0xff]
    public static let suffixBytes = marker.count + 8

    /// Returns the key of responses that serve only requests with this hash of unknown fields.
    /// - Parameter key: the key of requests without unknown fields.
    public static func key(_ key: [UInt8], hash: UInt64) -> [UInt8] {
        var own: [UInt8] = []
        own.reserveCapacity(key.count + suffixBytes)
        own += key
        own += marker
        own.append(littleEndian: hash)
        return own
    }
}
