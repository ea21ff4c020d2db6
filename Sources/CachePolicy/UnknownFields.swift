// The fields of a request that are neither harmless nor credentials (`RequestFieldKinds`). An upstream may select by them without saying so in Vary, so
// requests that differ in them are different ones: unless the upstream's own words say for which requests its response is.

import HTTPCore

/// Of one request. A class, since nearly no request has any and all hand them on.
public final class UnknownFields: Sendable, Equatable {
    /// A keyed hash of `kept`; never 0.
    public let hash: UInt64
    /// Names and values that tell the request's stored responses apart, in the order of the names. Of a field that changes with each request
    /// only the name.
    public let kept: [UInt8]
    /// All names and values, byte for byte: two requests share a fetch only if these are equal.
    public let exact: [UInt8]
    /// The names of those that change with each request.
    public let changing: [[UInt8]]

    public init(hash: UInt64, kept: [UInt8], exact: [UInt8], changing: [[UInt8]] = []) {
        self.hash = hash == 0 ? 1 : hash
        self.kept = kept
        self.exact = exact
        self.changing = changing
    }

    public static func == (one: UnknownFields, other: UnknownFields) -> Bool { one.hash == other.hash && one.exact == other.exact }

    /// Whether a response is for all requests with its key, whatever unknown fields they have: the upstream names a field in Vary other than those
    /// that frameworks add by themselves, or lets caches keep the response for others.
    /// - Parameters:
    ///   - control: as the upstream said it.
    ///   - lifetime: seconds of freshness that the response itself gives; nil if it gives none.
    public static func makeNoDifference(to response: Fields, _ control: ResponseCacheControl, lifetime: Int64?) -> Bool {
        if namesOtherFields(response) { return true }
        guard !control.isPrivate else { return false }
        // A malformed directive does not permit sharing.
        let saysForShared = control.sharedMaxAge != nil && !control.hasUnreadableSharedMaxAge
        return control.isPublic || saysForShared || lifetime ?? 0 > 0
    }

    /// Frameworks add the fields of CORS to every response, as they add Origin. A member that is not a field name is ignored.
    private static func namesOtherFields(_ response: Fields) -> Bool {
        FieldLists.contains(.vary, in: response) { member in
            member.allSatisfy(isTokenByte) && !member.equalsIgnoringCase("origin") && !member.equalsIgnoringCase("accept-encoding")
                && !member.equalsIgnoringCase("access-control-request-method")
                && !member.equalsIgnoringCase("access-control-request-headers")
        }
    }

    // MARK: In keys

    /// Stands behind the target in the keys of responses that are for requests with these fields only. No argument has such a length before it.
    static let marker: [UInt8] = [UInt8(ascii: "H"), 0xff, 0xff, 0xff]
    public static let suffixBytes = marker.count + 8

    /// The key of responses that are for requests with the fields of this hash only.
    /// - Parameter key: that of requests without unknown fields.
    public static func key(_ key: [UInt8], hash: UInt64) -> [UInt8] {
        var own: [UInt8] = []
        own.reserveCapacity(key.count + suffixBytes)
        own += key
        own += marker
        withUnsafeBytes(of: hash.littleEndian) { own.append(contentsOf: $0) }
        return own
    }
}
