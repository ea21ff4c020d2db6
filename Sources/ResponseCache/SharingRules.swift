// A hash of the rules by which this node distinguishes users, added to the key of everything that it shares. Nodes with different rules do
// not find each other's responses, because one node may share what belongs to a single user for another.

import CachePolicy
import HTTPCore
import Identity

struct SharingRules: Sendable {
    /// Hash of the rules for all paths.
    private let number: [UInt8]
    private let credentials: CredentialTable

    /// nil for a single user's cache, which does not distinguish users.
    init?(_ settings: ResponseCacheSettings) {
        let policy = settings.policy
        guard !policy.isPrivate else { return nil }
        credentials = settings.credentials
        let users = policy.credentials
        var lists = [
            users.fields.sorted(), users.cookies.sorted(), users.ignoredCookies.sorted(), settings.isKeyedByHost ? ["host"] : [],
            policy.keyFields,
        ]
        // Added only if it differs from the built-in list, so that nodes of versions without it continue to share.
        if policy.harmlessFields != CachePolicySettings().harmlessFields { lists.append(policy.harmlessFields.sorted()) }
        for tokens in settings.tokens.map(\.settings) { lists += [[tokens.subject], tokens.volatileClaims.sorted()] }
        var parts: [UInt8] = []
        for list in lists {
            var part: [UInt8] = []
            for text in list { CacheKey.appendPart(Array(text.utf8), to: &part) }
            CacheKey.appendPart(part, to: &parts)
        }
        let hash = ContentHash.number(of: parts.span)
        number = withUnsafeBytes(of: hash.littleEndian) { Array($0) }
    }

    /// Returns a key with the rules for this request added.
    func named(_ key: [UInt8], for head: RequestHead) -> [UInt8] {
        key + number + [credentials.areIgnored(for: head) ? 1 : 0]
    }
}
