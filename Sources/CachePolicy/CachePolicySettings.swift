// What the operator decides about caching, as plain values for the rules.

import HTTPCore
import JSON
import WellKnownNames

/// How far a stored response may be used against the letter while the upstream cannot be reached.
public enum Strictness: String, Sendable, CaseIterable {
    /// A stored response goes out while the upstream fails, even if it said `no-cache`, `must-revalidate`, `proxy-revalidate` or `s-maxage`.
    case rescue
    /// RFC 9111 to the letter.
    case strict
}

/// What becomes of Set-Cookie in a response that is stored. The client that caused it gets it in any case.
public enum SetCookieTreatment: String, Sendable, CaseIterable {
    /// It is left out of what is stored: a departure from RFC 9111 §3.1, for safety.
    case strip
    /// RFC 9111 §7.3 to the letter: everyone gets it.
    case keep
    /// The response is not stored.
    case refuse
}

/// What tells users apart.
public struct CredentialSettings: Sendable, Equatable {
    /// Request fields that carry credentials, in lower case; `*` at the beginning stands for any. Each combination of their values has a partition of its
    /// own.
    public var fields = WellKnownNames.credentialFields { didSet { names = CredentialNames(fields) } }
    /// Those among them that a whole group of users may have in common, in lower case.
    public var groupFields = WellKnownNames.groupCredentials { didSet { groupNames = CredentialNames(groupFields) } }
    /// The same, ready to be asked.
    public private(set) var names = CredentialNames.wellKnown
    public private(set) var groupNames = CredentialNames.wellKnownGroups
    /// Cookies that count as credentials, where Cookie is one of those fields; `*` at the end of a name stands for any rest.
    public var cookies = ["*"]
    /// Those among them that say nothing about who somebody is: of analytics, load balancers and guards against robots.
    public var ignoredCookies = WellKnownNames.ignoredCookies

    public init() {}
}

public struct CachePolicySettings: Sendable {
    public var strictness = Strictness.rescue
    /// Media types that are kept.
    public var contentTypes = ContentTypes(["application/json", "+json", "text/json"])
    /// Whether only 2xx responses of those types are kept, or every response that RFC 9111 §3 lets a cache keep.
    public var keepsAny = false
    /// Whether errors that one odd request brings about are kept like any other response, where they say how long they are fresh and `keepsAny` is
    /// on.
    public var keepsAnyError = false
    public var setCookie = SetCookieTreatment.strip
    /// Whether this cache is one user's alone, and so a private cache (RFC 9111 §1.2): no partitions, and `private` is for it.
    public var isPrivate = false
    /// Percentage of the time since Last-Modified for which a response without explicit freshness counts as fresh (§4.2.2); 0: none.
    public var heuristicPercent: Int64 = 0
    /// Longest such freshness in seconds: beyond a day users would have to be warned (§4.2.2 of RFC 7234).
    public var heuristicLimit: Int64 = 86_400
    /// Targeted fields (RFC 9213) that are for us, in lower case; the first that is there and valid counts.
    public var targetedFields: [[UInt8]] = ["cistern-cache-control", "cdn-cache-control"].map { Array($0.utf8) }
    /// Whether clients do not get them.
    public var stripsTargetedFields = false
    /// Whether No-Vary-Search tells which arguments make no difference.
    public var usesNoVarySearch = true
    /// Most fields that a kept response may vary by, and most groups that it may belong to or that a write may change. Each of them costs a look-up
    /// or its like at every hit (RFC 9875 §2: at least 32 groups).
    public var memberLimit = 128
    /// Whether stored JSON without a validator gets one that is made of its data.
    public var makesEntityTags = true
    /// Which JSON is taken beyond RFC 8259.
    public var reading = JSONReading.otherBytes
    public var credentials = CredentialSettings()
    /// Request fields that are part of every key, in lower case: for upstreams whose responses depend on them without saying so in Vary.
    public var keyFields: [String] = []
    /// Request fields that select nothing, in lower case (`RequestFieldKinds`).
    public var harmlessFields = WellKnownNames.harmlessFields
    /// Request fields that the upstream never gets as a client sent them, in lower case.
    public var fieldsSetAnew: [String] = []
    /// Whether Cistern may pass Forwarded on unchanged.
    public var passesForwarded = false
    /// Of the request's route.
    public var freshness = FreshnessRules()

    public init() {}

    /// Whether JSON that came without a validator gets a tag of its data, where `makesEntityTags`.
    public static func wantsOwnTag(_ head: ResponseHead) -> Bool {
        head.status == 200 && !head.fields.contains(.etag) && !head.fields.contains(.lastModified)
            && MediaType(of: head.fields)?.isJSON == true
    }
}

extension MediaType {
    /// Whether content of this type must be a JSON text (RFC 8259, RFC 6839 §3.1).
    public var isJSON: Bool {
        isEssence("application/json") || isEssence("text/json") || suffix.equalsIgnoringCase("json")
    }

    /// Whether content with these fields must be a JSON text.
    /// - Parameter orElse: what counts without Content-Type: whether the stored response is JSON.
    public static func isJSON(_ fields: Fields, orElse stored: Bool) -> Bool {
        fields.contains(.contentType) ? MediaType(of: fields)?.isJSON == true : stored
    }
}
