// An administrator's purge in the form that nodes exchange. It contains the administrator's selection and no entry ids, because stored
// responses and ids differ between nodes.

import CachePolicy
import HTTPCore

public struct FleetSelection: Sendable, Equatable {
    public enum Kind: UInt8, Sendable, CaseIterable {
        case everything = 0
        case target = 1
        case prefix = 2
        case tag = 3
        /// The selected item is no longer stored.
        case nothing = 4
        /// `PurgeCriteria` as text. Versions without this kind make all stored responses stale.
        case criteria = 5
    }

    public let kind: Kind
    /// The target, prefix, tag or criteria.
    public let value: String
    /// Names of the selected APIs; empty means all.
    public let apis: [String]

    public init(_ kind: Kind, _ value: String = "", apis: [String] = []) { (self.kind, self.value, self.apis) = (kind, value, apis) }

    public init(_ criteria: PurgeCriteria, apis: [String]) {
        let (kind, value) = criteria.simple ?? (.criteria, criteria.text)
        self.init(kind, value, apis: apis)
    }

    public var bytes: [UInt8] {
        var bytes = [kind.rawValue]
        for part in [value] + apis { CacheKey.appendPart(Array(part.utf8), to: &bytes) }
        return bytes
    }

    /// - Returns: nil if the bytes cannot be parsed. The selection may then include anything.
    public init?(_ bytes: [UInt8]) {
        guard let kind = bytes.first.flatMap(Kind.init(rawValue:)), let parts = KeyParts.read(bytes.dropFirst()), let value = parts.first
        else {
            return nil
        }
        self.init(kind, String(decoding: value, as: UTF8.self), apis: parts.dropFirst().map { String(decoding: $0, as: UTF8.self) })
        guard criteria != nil else { return nil }
    }

    /// Returns whether the selection includes an API.
    public func isMeant(_ settings: ResponseCacheSettings) -> Bool {
        guard kind != .nothing else { return false }
        return apis.isEmpty || apis.contains { StoredKey.name(ofAPI: $0) == settings.keyName }
    }

    /// Returns whether the selection may include APIs other than these.
    public func mayMeanOthers(than served: [ResponseCacheSettings]) -> Bool {
        guard !apis.isEmpty else { return served.contains(where: \.isOneOfSeveral) }
        return apis.contains { name in !served.contains { $0.keyName == StoredKey.name(ofAPI: name) } }
    }

    /// The criteria; nil if they cannot be parsed. The selection may then include anything.
    public var criteria: PurgeCriteria? {
        var criteria = PurgeCriteria()
        switch kind {
        case .everything, .nothing: break
        case .target: criteria.target = value
        case .prefix: criteria.prefix = value
        case .tag: criteria.tag = value
        case .criteria: return PurgeCriteria(text: value)
        }
        return criteria
    }

    /// Returns the selection as a purge of an API; nil if it cannot be parsed.
    public func purge(in cache: ResponseCache) -> PurgeSelection? {
        guard kind != .everything else { return .all }
        return criteria.map { .selection($0.selection(in: cache)) }
    }
}

/// State of a purge's propagation to the other nodes.
public enum PurgeReach: Sendable, Equatable {
    /// Every node that follows the log applies it, and a replica of the engine has it.
    case durable
    /// The purge is stored locally and sent again until it is durable.
    case pending(reason: String)
    /// Too many purges are pending: this purge applies to this node only.
    case local
}

/// A purge that is already applied to responses from other nodes, but is not published to them yet.
public struct AnnouncedPurge: Sendable {
    /// Publishes the purge, after it was performed locally. `then` is called once, from any thread.
    public let publish: @Sendable (_ then: @escaping @Sendable (PurgeReach) -> Void) -> Void

    public init(publish: @escaping @Sendable (_ then: @escaping @Sendable (PurgeReach) -> Void) -> Void) { self.publish = publish }
}
