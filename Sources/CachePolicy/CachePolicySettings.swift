// Settings of the caching rules as plain values. Where they come from (YAML, environment, routes) is decided elsewhere.

import Forwarding
import HTTPCore
import JSON

/// Whether a stored response may be used against the rules of RFC 9111 while the upstream cannot be reached.
public enum Strictness: String, Sendable, CaseIterable {
    /// A stored response may be served while the upstream fails, even if it has `no-cache`, `must-revalidate`, `proxy-revalidate` or
    /// `s-maxage`.
    case rescue
    /// Follows RFC 9111 to the letter.
    case strict
}

/// How Set-Cookie is handled when a response is stored. The client that requested the response receives the field in any case.
public enum SetCookieTreatment: String, Sendable, CaseIterable {
    /// The field is removed from the stored response: a departure from RFC 9111 §3.1, for safety.
    case strip
    /// The field is stored and sent to every client, as RFC 9111 §7.3 describes.
    case keep
    /// The response is not stored.
    case refuse
}

/// Request fields and cookies that identify users.
public struct CredentialSettings: Sendable, Equatable {
    /// Request fields that carry credentials, in lower case. A leading `*` matches any beginning. Each combination of their values has its
    /// own partition.
    public var fields = WellKnownNames.credentialFields { didSet { names = CredentialNames(fields) } }
    /// Credential fields that a whole group of users may share, in lower case. A subset of `fields`.
    public var groupFields = WellKnownNames.groupCredentials { didSet { groupNames = CredentialNames(groupFields) } }
    /// `fields` compiled for lookups.
    public private(set) var names = CredentialNames.wellKnown
    /// `groupFields` compiled for lookups.
    public private(set) var groupNames = CredentialNames.wellKnownGroups
    /// Cookies that count as credentials if `fields` contains Cookie. A trailing `*` matches any ending.
    public var cookies = ["*"]
    /// Cookies among `cookies` that do not identify a user: those of analytics, load balancers and bot protection.
    public var ignoredCookies = WellKnownNames.ignoredCookies

    public init() {}
}

public struct CachePolicySettings: Sendable {
    public var strictness = Strictness.rescue
    /// Media types that are stored.
    public var contentTypes = ContentTypes(["application/json", "+json", "text/json"])
    /// False: only 2xx responses with these types are stored. True: every response that RFC 9111 §3 allows a cache to store.
    public var keepsAny = false
    /// Whether errors that a single malformed or unusual request causes are stored like other responses. They need explicit freshness or
    /// `public`, and `keepsAny` must be on.
    public var keepsAnyError = false
    public var setCookie = SetCookieTreatment.strip
    /// Whether this cache serves a single user and is a private cache (RFC 9111 §1.2). It then has no partitions, and `private` allows it
    /// to store.
    public var isPrivate = false
    /// Freshness lifetime of a response without explicit freshness, as a percentage of the time since Last-Modified (§4.2.2). 0 disables
    /// heuristic freshness.
    public var heuristicPercent: Int64 = 0
    /// Maximum heuristic freshness lifetime in seconds. Beyond a day, RFC 7234 §4.2.2 required a warning to users.
    public var heuristicLimit: Int64 = 86_400
    /// Targeted fields (RFC 9213) that apply to this cache, in lower case. The first one that is present and valid is used.
    public var targetedFields: [[UInt8]] = ["cistern-cache-control", "cdn-cache-control"].map { Array($0.utf8) }
    /// Whether targeted fields are removed from responses to clients.
    public var stripsTargetedFields = false
    /// Whether No-Vary-Search determines which query arguments the cache ignores.
    public var usesNoVarySearch = true
    /// Maximum number of fields in Vary of a stored response, of its groups, and of groups that a write may invalidate. Each costs about
    /// one lookup for every hit (RFC 9875 §2: at least 32 groups).
    public var memberLimit = 128
    /// Whether stored JSON without a validator gets an entity tag computed from its content.
    public var makesEntityTags = true
    /// JSON beyond RFC 8259 that is accepted.
    public var reading = JSONReading.otherBytes
    public var credentials = CredentialSettings()
    /// Request fields that are part of every cache key, in lower case. For upstreams with responses that depend on fields missing from
    /// Vary.
    public var keyFields: [String] = []
    /// Request fields that do not select a response, in lower case (`RequestFieldKinds`).
    public var harmlessFields = WellKnownNames.harmlessFields
    /// Request fields that are never forwarded with the client's value, in lower case.
    public var fieldsSetAnew: [String] = []
    /// Whether the client's Forwarded field may be forwarded unchanged.
    public var passesForwarded = false
    /// Freshness rules of the request's route.
    public var freshness = FreshnessRules()

    public init() {}

    /// Converts names that an operator has written to lower case, as the rules require.
    public mutating func lowercaseNames() {
        targetedFields = targetedFields.map { $0.map(\.asciiLowercased) }
        credentials.fields = credentials.fields.map { $0.lowercased() }
        credentials.groupFields = credentials.groupFields.map { $0.lowercased() }
        keyFields = keyFields.map { $0.lowercased() }
    }

    /// Returns whether a response gets an entity tag computed from its content: JSON with status 200 and no validator.
    public func makesTag(for head: ResponseHead) -> Bool {
        makesEntityTags && head.status == 200 && !head.fields.contains(.etag) && !head.fields.contains(.lastModified)
            && MediaType(of: head.fields)?.isJSON == true
    }
}

extension MediaType {
    /// True if content of this type must be a JSON text (RFC 8259, RFC 6839 §3.1).
    public var isJSON: Bool {
        isEssence("application/json") || isEssence("text/json") || suffix.equalsIgnoringCase("json")
    }

    /// Whether the content describes an error (RFC 9457).
    var isProblem: Bool { isEssence("application/problem+json") }

    /// Returns whether content with these fields must be a JSON text.
    /// - Parameter orElse: result if Content-Type is missing: whether the stored response is JSON.
    public static func isJSON(_ fields: Fields, orElse stored: Bool) -> Bool {
        fields.contains(.contentType) ? MediaType(of: fields)?.isJSON == true : stored
    }
}

extension ResponseHead {
    /// Whether the response describes an error although its status is 2xx, as those of some gateways do.
    var isErrorAsSuccess: Bool { status.isSuccessful && MediaType(of: fields)?.isProblem == true }
}
