// What the operator decides about caching, as plain values for the rules.

import HTTPCore
import WellKnownNames

/// How far a stored response may be used against the letter while the upstream cannot be reached.
package enum Strictness: String, Sendable, CaseIterable {
    /// A stored response goes out while the upstream fails, even if it said `no-cache`, `must-revalidate`, `proxy-revalidate` or `s-maxage`.
    case rescue
    /// RFC 9111 to the letter.
    case strict
}

/// What becomes of Set-Cookie in a response that is stored. The client that caused it gets it in any case.
package enum SetCookieTreatment: String, Sendable, CaseIterable {
    /// It is left out of what is stored: a departure from RFC 9111 §3.1, for safety.
    case strip
    /// RFC 9111 §7.3 to the letter: everyone gets it.
    case keep
    /// The response is not stored.
    case refuse
}

/// What tells users apart.
package struct CredentialSettings: Sendable, Equatable {
    /// Request fields that carry credentials, in lower case. Each combination of their values has a partition of its own.
    package var fields = WellKnownNames.credentialFields
    /// Those among them that a whole group of users may have in common, in lower case.
    package var groupFields = WellKnownNames.groupCredentials
    /// Cookies that count as credentials, where Cookie is one of those fields; `*` at the end of a name stands for any rest.
    package var cookies = ["*"]
    /// Those among them that say nothing about who somebody is: of analytics, load balancers and guards against robots.
    package var ignoredCookies = WellKnownNames.ignoredCookies

    package init() {}
}

package struct CachePolicySettings: Sendable {
    package var strictness = Strictness.rescue
    /// Media types that are kept.
    package var contentTypes = ContentTypes(["application/json", "+json", "text/json"])
    /// Whether only 2xx responses of those types are kept, or every response that RFC 9111 §3 lets a cache keep.
    package var keepsAny = false
    /// Whether errors that one odd request brings about are kept like any other response, where they say how long they are fresh and `keepsAny` is
    /// on.
    package var keepsAnyError = false
    package var setCookie = SetCookieTreatment.strip
    /// Whether this cache is one user's alone, and so a private cache (RFC 9111 §1.2): no partitions, and `private` is for it.
    package var isPrivate = false
    /// Percentage of the time since Last-Modified for which a response without explicit freshness counts as fresh (§4.2.2); 0: none.
    package var heuristicPercent: Int64 = 0
    /// Longest such freshness in seconds: beyond a day users would have to be warned (§4.2.2 of RFC 7234).
    package var heuristicLimit: Int64 = 86_400
    /// Targeted fields (RFC 9213) that are for us, in lower case; the first that is there and valid counts.
    package var targetedFields: [[UInt8]] = ["cistern-cache-control", "cdn-cache-control"].map { Array($0.utf8) }
    /// Whether clients do not get them.
    package var stripsTargetedFields = false
    /// Whether No-Vary-Search tells which arguments make no difference.
    package var usesNoVarySearch = true
    /// Most fields that a kept response may vary by, and most groups that it may belong to or that a write may change. Each of them costs a look-up
    /// or its like at every hit (RFC 9875 §2: at least 32 groups).
    package var memberLimit = 128
    /// Whether stored JSON without a validator gets one that is made of its data.
    package var makesEntityTags = true
    package var credentials = CredentialSettings()
    /// Request fields that are part of every key, in lower case: for upstreams whose responses depend on them without saying so in Vary.
    package var keyFields: [String] = []
    /// Of the request's route.
    package var freshness = FreshnessRules()

    package init() {}

    /// Whether JSON that came without a validator gets a tag of its data.
    package func wantsOwnTag(_ head: ResponseHead) -> Bool {
        makesEntityTags && head.status == 200 && !head.fields.contains(.etag) && !head.fields.contains(.lastModified)
            && MediaType(of: head.fields)?.isJSON == true
    }
}

extension MediaType {
    /// Whether content of this type must be a JSON text (RFC 8259, RFC 6839 §3.1).
    package var isJSON: Bool {
        isEssence("application/json") || isEssence("text/json") || suffix.equalsIgnoringCase("json")
    }

    /// Whether content with these fields must be a JSON text.
    /// - Parameter orElse: what counts without Content-Type: whether the stored response is JSON.
    package static func isJSON(_ fields: Fields, orElse stored: Bool) -> Bool {
        fields.contains(.contentType) ? MediaType(of: fields)?.isJSON == true : stored
    }
}
