// By which rules this node tells users apart, as a part of the key of all that it shares: nodes with other rules find nothing of each other.
// What the one takes for everybody's may be one user's for the other.

import CachePolicy
import HTTPCore
import Hashing
import Identity

struct SharingRules: Sendable {
    /// Of what holds for all paths.
    private let number: [UInt8]
    private let credentials: CredentialTable

    /// nil for one user's own cache, which tells nobody apart.
    init?(_ settings: ResponseCacheSettings) {
        let policy = settings.policy
        guard !policy.isPrivate else { return nil }
        credentials = settings.credentials
        let users = policy.credentials
        var lists = [
            users.fields.sorted(), users.cookies.sorted(), users.ignoredCookies.sorted(), settings.isKeyedByHost ? ["host"] : [],
            policy.keyFields,
        ]
        // Only where it is another than the built-in list: so nodes of a version without it go on sharing with those that have it.
        if policy.harmlessFields != CachePolicySettings().harmlessFields { lists.append(policy.harmlessFields.sorted()) }
        for tokens in settings.tokens.map(\.settings) { lists += [[tokens.subject], tokens.volatileClaims.sorted()] }
        var parts: [UInt8] = []
        for list in lists {
            var part: [UInt8] = []
            for text in list { CacheKey.appendPart(Array(text.utf8), to: &part) }
            CacheKey.appendPart(part, to: &parts)
        }
        let hash = parts.withUnsafeBytes(ContentHash.number)
        number = withUnsafeBytes(of: hash.littleEndian) { Array($0) }
    }

    /// A key, with the rules for this request in it.
    func named(_ key: [UInt8], for head: RequestHead) -> [UInt8] {
        key + number + [credentials.areIgnored(for: head) ? 1 : 0]
    }
}
