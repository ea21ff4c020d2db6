// The key of one request: the canonical target, the partition of its credentials, and the fields that the operator made part of it.

import CachePolicy
import CacheStore
import Downstream
import Forwarding
import HTTPCore

struct RequestKeyMaker {
    let policy: CachePolicySettings
    let forwarding: ForwardingSettings
    /// Scheme, host and port of the upstream, with its base path.
    let authority: [UInt8]
    /// Beside Cookie, at the place of their length.
    private let credentialNames: [[[UInt8]]]
    /// Those of them that have a number: any other field that has one is told apart by it.
    private let knownCredentials: KnownFieldSet
    /// Which cookies count; nil where Cookie is no credential field.
    let cookies: CredentialCookies?
    private let keyNames: [[UInt8]]
    /// Of almost every key.
    private let plainPrefix: [UInt8]

    init(policy: CachePolicySettings, forwarding: ForwardingSettings, authority: [UInt8]) {
        self.policy = policy
        self.forwarding = forwarding
        self.authority = authority
        let names = policy.credentialFields.filter { $0 != "cookie" }.map { Array($0.utf8) }
        credentialNames = (0...(names.map(\.count).max() ?? 0)).map { length in names.filter { $0.count == length } }
        var known = KnownFieldSet()
        for name in names { KnownField(name.span).map { known.insert($0) } }
        knownCredentials = known
        cookies = policy.credentialFields.contains("cookie") ? CredentialCookies(policy) : nil
        keyNames = policy.keyFields.map { Array($0.utf8) }
        plainPrefix = CacheKey.prefix(authority: authority)
    }

    /// Appends the key; returns whether it has a partition.
    /// - Parameters:
    ///   - rules: what the target's route says of arguments.
    ///   - content: what the request's content says, where the answer depends on it.
    func append(
        to key: inout [UInt8], head: RequestHead, target: Span<UInt8>, rules: ArgumentRules?, content: [UInt8]? = nil, store: ResponseStore
    ) -> Bool {
        // One user's own cache has no partitions.
        let partition = policy.isPrivate ? [] : partition(of: head.fields, store)
        CacheKey.append(to: &key, prefix: prefix(partition, extra(of: head, content)), target: target, rules: rules)
        return !partition.isEmpty
    }

    /// The same target's key in the partition of those without credentials.
    func appendShared(
        to key: inout [UInt8], head: RequestHead, target: Span<UInt8>, rules: ArgumentRules?, content: [UInt8]? = nil
    ) {
        CacheKey.append(to: &key, prefix: prefix([], extra(of: head, content)), target: target, rules: rules)
    }

    private func prefix(_ partition: [UInt8], _ extra: [UInt8]) -> [UInt8] {
        guard !partition.isEmpty || !extra.isEmpty else { return plainPrefix }
        return CacheKey.prefix(authority: authority, partition: partition, extra: extra)
    }

    /// A number that stands for the request's credentials; 0 without. Where something is stored it is the first part of their partition.
    func user(of fields: Fields, _ store: ResponseStore?) -> UInt64 {
        let parts = credentials(of: fields)
        guard !parts.isEmpty else { return 0 }
        guard let store else { return UInt64(truncatingIfNeeded: parts.hashValue) }
        return store.credentialPartition(parts).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    private func partition(of fields: Fields, _ store: ResponseStore) -> [UInt8] {
        let parts = credentials(of: fields)
        return parts.isEmpty ? [] : store.credentialPartition(parts)
    }

    /// Whether a request has credentials beside its cookies.
    func hasOtherCredentials(_ fields: Fields) -> Bool { !fieldCredentials(of: fields).isEmpty }

    /// That of a request with the same cookies and no other credentials; nil where none counts, or it is unclear which they are.
    func cookiePartition(of fields: Fields, _ store: ResponseStore) -> [UInt8]? {
        guard let pairs = cookies?.pairs(of: fields), !pairs.isEmpty else { return nil }
        return Self.partition(of: pairs, store)
    }

    static func partition(of cookies: [CredentialCookies.Pair], _ store: ResponseStore) -> [UInt8] {
        var parts: [UInt8] = []
        CredentialCookies.append(cookies, to: &parts)
        return store.credentialPartition(parts)
    }

    private func credentials(of fields: Fields) -> [UInt8] {
        var parts = fieldCredentials(of: fields)
        if fields.contains(.cookie) { cookies?.append(of: fields, to: &parts) }
        return parts
    }

    private func fieldCredentials(of fields: Fields) -> [UInt8] {
        var parts: [UInt8] = []
        for entry in fields.entries {
            guard entry.known.map(knownCredentials.contains) ?? true, entry.nameLength < credentialNames.count else { continue }
            let name = fields.bytes.span.extracting(entry.nameRange)
            for wanted in credentialNames[Int(entry.nameLength)] where name.isReadAsName(wanted.span) {
                CacheKey.appendPart(fields.bytes[entry.nameRange].map(\.asciiLowercased), to: &parts)
                CacheKey.appendPart(Array(fields.bytes[entry.valueRange]), to: &parts)
            }
        }
        return parts
    }

    private func extra(of head: RequestHead, _ content: [UInt8]?) -> [UInt8] {
        guard forwarding.sendsClientHost || !keyNames.isEmpty || content != nil else { return [] }
        var parts: [UInt8] = []
        if let content { CacheKey.appendPart(content, to: &parts) }
        if forwarding.sendsClientHost { CacheKey.appendPart(head.host.map(\.asciiLowercased), to: &parts) }
        for name in keyNames {
            let values = head.fields.all(named: name.span)
            parts.append(UInt8(truncatingIfNeeded: values.count))
            for value in values { CacheKey.appendPart(Array(value), to: &parts) }
        }
        return parts
    }
}

extension RequestHead {
    /// The host that the client asked for: an absolute target's, else the Host field's.
    var host: [UInt8] {
        if target.first != UInt8(ascii: "/"), let authority = RequestTarget(target, method: method)?.authority { return Array(authority) }
        return fields.first(.host).map(Array.init) ?? []
    }
}
