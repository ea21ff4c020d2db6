// What an administrator purges, as nodes tell each other: in the administrator's words, since each node has its own entries and ids.

import CachePolicy
import HTTPCore

public struct FleetSelection: Sendable, Equatable {
    public enum Kind: UInt8, Sendable, CaseIterable {
        case everything = 0
        case target = 1
        case prefix = 2
        case tag = 3
        /// What was meant is not stored any more.
        case nothing = 4
    }

    public let kind: Kind
    /// The target, prefix or tag.
    public let value: String
    /// The names of the APIs that are meant; empty: all.
    public let apis: [String]

    public init(_ kind: Kind, _ value: String = "", apis: [String] = []) { (self.kind, self.value, self.apis) = (kind, value, apis) }

    public var bytes: [UInt8] {
        var bytes = [kind.rawValue]
        for part in [value] + apis { CacheKey.appendPart(Array(part.utf8), to: &bytes) }
        return bytes
    }

    /// - Returns: nil where it cannot be read: then it may mean anything.
    public init?(_ bytes: [UInt8]) {
        guard let kind = bytes.first.flatMap(Kind.init(rawValue:)), let parts = KeyParts.read(bytes.dropFirst()), let value = parts.first
        else {
            return nil
        }
        self.init(kind, String(decoding: value, as: UTF8.self), apis: parts.dropFirst().map { String(decoding: $0, as: UTF8.self) })
    }

    /// Whether responses of an API are meant.
    public func isMeant(_ settings: ResponseCacheSettings) -> Bool {
        guard kind != .nothing else { return false }
        return apis.isEmpty || apis.contains { StoredKey.name(ofAPI: $0) == settings.keyName }
    }

    /// Whether APIs are meant that may be stored, and are none of these.
    public func mayMeanOthers(than served: [ResponseCacheSettings]) -> Bool {
        guard !apis.isEmpty else { return served.contains(where: \.isOneOfSeveral) }
        return apis.contains { name in !served.contains { $0.keyName == StoredKey.name(ofAPI: name) } }
    }

    /// Which entries of an API that is meant; nil: all of them.
    func entries(_ arguments: ArgumentTable) -> EntrySelection? {
        switch kind {
        case .everything, .nothing: nil
        case .target: EntrySelection(target: .init(value, arguments))
        case .prefix: EntrySelection(prefix: .init(value))
        case .tag: EntrySelection(tag: value)
        }
    }

    /// The same, to be purged.
    public func purge(_ arguments: ArgumentTable) -> PurgeSelection { entries(arguments).map { .selection($0) } ?? .all }
}

/// How far a purge has come.
public enum PurgeReach: Sendable, Equatable {
    /// Every node that sees the log obeys it, and a replica of the engine has it.
    case durable
    /// It is kept here, and sent again until it is durable.
    case pending(reason: String)
    /// Too many are pending: it holds on this node only.
    case local
}

/// A purge that holds for what other nodes give, and is yet to be told to them.
public protocol AnnouncedPurge: Sendable {
    /// Once it is done here.
    /// - Parameter then: called once, from any thread.
    func tell(then: @escaping @Sendable (PurgeReach) -> Void)
}
