// The key of one request: the canonical target, the partition of its credentials, and the fields that the operator made part of it.

import CachePolicy
import CacheStore
import Downstream
import HTTPCore

struct RequestKeyMaker {
    let policy: CachePolicySettings
    let forwarding: ForwardingSettings
    /// Scheme, host and port of the upstream, with its base path.
    let authority: [UInt8]
    private let credentialNames: [[UInt8]]
    /// A bit for each length that a credential field's name has: almost every other field is told apart by it.
    private let credentialLengths: UInt64
    private let keyNames: [[UInt8]]

    init(policy: CachePolicySettings, forwarding: ForwardingSettings, authority: [UInt8]) {
        self.policy = policy
        self.forwarding = forwarding
        self.authority = authority
        credentialNames = policy.credentialFields.map { Array($0.utf8) }
        credentialLengths = credentialNames.reduce(0) { $0 | 1 << UInt64($1.count & 63) }
        keyNames = policy.keyFields.map { Array($0.utf8) }
    }

    /// Appends the key; returns whether it has a partition.
    func append(to key: inout [UInt8], head: RequestHead, target: Span<UInt8>, store: ResponseStore) -> Bool {
        let partition = partition(of: head.fields, store)
        CacheKey.append(to: &key, authority: authority, target: target, partition: partition, extra: extra(of: head))
        return !partition.isEmpty
    }

    /// The same target's key in the partition of those without credentials.
    func appendShared(to key: inout [UInt8], head: RequestHead, target: Span<UInt8>) {
        CacheKey.append(to: &key, authority: authority, target: target, extra: extra(of: head))
    }

    private func partition(of fields: Fields, _ store: ResponseStore) -> [UInt8] {
        var parts: [UInt8] = []
        for entry in fields.entries {
            guard credentialLengths & (1 << UInt64(entry.nameLength & 63)) != 0 else { continue }
            let name = fields.bytes.span.extracting(entry.nameRange)
            for wanted in credentialNames where name.equalsIgnoringCase(wanted.span) {
                append(wanted, to: &parts)
                append(Array(fields.bytes[entry.valueRange]), to: &parts)
            }
        }
        return parts.isEmpty ? [] : store.credentialPartition(parts)
    }

    private func extra(of head: RequestHead) -> [UInt8] {
        guard forwarding.sendsClientHost || !keyNames.isEmpty else { return [] }
        var parts: [UInt8] = []
        if forwarding.sendsClientHost { append(head.host.map(\.asciiLowercased), to: &parts) }
        for name in keyNames {
            let values = head.fields.all(named: name.span)
            parts.append(UInt8(truncatingIfNeeded: values.count))
            for value in values { append(Array(value), to: &parts) }
        }
        return parts
    }

    private func append(_ part: [UInt8], to parts: inout [UInt8]) {
        let count = UInt32(part.count)
        withUnsafeBytes(of: count.littleEndian) { parts.append(contentsOf: $0) }
        parts += part
    }
}

extension RequestHead {
    /// The host that the client asked for: an absolute target's, else the Host field's.
    var host: [UInt8] {
        if let authority = RequestTarget(target, method: method)?.authority { return Array(authority) }
        return fields.first(.host).map(Array.init) ?? []
    }
}
