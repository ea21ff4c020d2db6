// A hash of the rules by which this node distinguishes users and permits storing, added to the key of everything that it shares. Nodes with
// different rules do not find each other's responses, because one node may share what belongs to a single user for another. Rules that
// were added later count only if they differ from the default, so that nodes of different versions continue to share.

import CachePolicy
import HTTPCore
import Identity

struct SharingRules: Sendable {
    /// Hash of the rules for all paths.
    private let number: [UInt8]
    private let credentials: CredentialTable
    private let arguments: ArgumentTable
    /// nil if no path has such rules.
    private let freshness: PathTable<FreshnessRules>?

    /// nil for a single user's cache, which does not distinguish users.
    init?(_ settings: ResponseCacheSettings) {
        let policy = settings.policy
        guard !policy.isPrivate else { return nil }
        (credentials, arguments) = (settings.credentials, settings.arguments)
        freshness = settings.freshness.contains { !Self.texts($0).isEmpty } ? settings.freshness : nil
        let users = policy.credentials
        var lists = [
            users.fields.sorted(), users.cookies.sorted(), users.ignoredCookies.sorted(), settings.isKeyedByHost ? ["host"] : [],
            policy.keyFields,
        ]
        if policy.harmlessFields != CachePolicySettings().harmlessFields { lists.append(policy.harmlessFields.sorted()) }
        for tokens in settings.tokens.map(\.settings) { lists += [[tokens.subject], tokens.volatileClaims.sorted()] }
        number = Self.number(lists + Self.storingRules(policy))
    }

    /// Rules for all paths that differ from the defaults. No field name contains a space.
    private static func storingRules(_ policy: CachePolicySettings) -> [[String]] {
        let usual = CachePolicySettings()
        var rules: [[String]] = []
        if policy.strictness != usual.strictness { rules.append(["the policy", policy.strictness.rawValue]) }
        if policy.setCookie != usual.setCookie { rules.append(["set cookie", policy.setCookie.rawValue]) }
        if policy.keepsAnyError { rules.append(["any error"]) }
        if policy.targetedFields != usual.targetedFields {
            rules.append(["targeted fields"] + policy.targetedFields.map { String(decoding: $0, as: UTF8.self) })
        }
        return rules
    }

    /// The rules of a path that let more clients share a response, or that select a response; empty for the defaults. A key for the upstream
    /// in a file or a variable is not among them: if it is renewed, nodes continue to share.
    private static func texts(_ rules: FreshnessRules) -> [String] {
        [IgnoredDirective.noStore, .privateResponse, .vary].filter { rules.ignored.contains($0) }.map(\.rawValue)
            + rules.unforwarded.map { "field " + String(decoding: $0, as: UTF8.self) }.sorted()
            + rules.fixed.map { "value \($0)" }.sorted()
    }

    /// The rules of a path that merge requests; empty for the defaults.
    private static func lists(_ rules: ArgumentRules) -> [[String]] {
        guard rules.isSpecial else { return [] }
        let flags = [rules.sorts, rules.ignoresCase, rules.keepsEmptyQuery].map { $0 ? "yes" : "no" }
        return [flags] + [rules.ignore, rules.only, rules.drop].map { $0.map(\.text).sorted() }
    }

    private static func number(_ lists: [[String]]) -> [UInt8] {
        var parts: [UInt8] = []
        for list in lists {
            var part: [UInt8] = []
            for text in list { CacheKey.appendPart(Array(text.utf8), to: &part) }
            CacheKey.appendPart(part, to: &parts)
        }
        let hash = ContentHash.number(of: parts.span)
        return withUnsafeBytes(of: hash.littleEndian) { Array($0) }
    }

    /// Returns a key with the rules for this request added.
    func named(_ key: [UInt8], for head: RequestHead) -> [UInt8] {
        key + number + [credentials.specialRules(for: head)?.areIgnored == true ? 1 : 0] + pathNumber(head.pathAndQuery)
    }

    /// Hash of the rules of a path; empty for the defaults.
    private func pathNumber(_ target: ArraySlice<UInt8>) -> [UInt8] {
        let merging = arguments.specialRules(for: target).map(Self.lists) ?? []
        let permitting = freshness.map { Self.texts($0.rules(for: target)) } ?? []
        return merging.isEmpty && permitting.isEmpty ? [] : Self.number([permitting] + merging)
    }
}
