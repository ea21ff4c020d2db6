// The cache keys under which the responses to one request are looked up.

/// The key of a stored response that may serve the request only as a rescue. A class, because nearly no request has one and every request
/// passes the reference along.
public final class FormerKey: Sendable, Equatable {
    public let key: [UInt8]
    /// Why the response may be served.
    public let permission: SharedRescuePermission

    public init(_ key: [UInt8], _ permission: SharedRescuePermission) { (self.key, self.permission) = (key, permission) }

    public static func == (one: FormerKey, other: FormerKey) -> Bool { one.key == other.key && one.permission == other.permission }
}

/// The key of one target in the partition of its request, and in the partition without credentials. The two are equal if the request has no
/// credentials.
public struct TargetKeys: Sendable, Equatable {
    /// Includes the hash of the request's unknown fields, if it has any.
    public let own: [UInt8]
    /// Key without credentials and without unknown fields. Invalidation marks are stored next to it.
    public let credentialFree: [UInt8]
    /// Key in the partition common to all requests with Authorization and equal other credentials; nil if the route does not share
    /// responses.
    public var common: [UInt8]?
    /// Key in the partition of the user to whom the credentials belonged until recently; nil if there is none. Used for a rescue only.
    public var former: FormerKey?
    /// Fields by which the upstream may select without listing them in Vary; nil if the request has none, and where they are ignored.
    public let unknownFields: UnknownFields?

    /// - Parameter own: key without unknown fields.
    public init(own: [UInt8], credentialFree: [UInt8], unknownFields: UnknownFields? = nil) {
        self.own = unknownFields.map { UnknownFields.key(own, hash: $0.hash) } ?? own
        self.credentialFree = credentialFree
        self.unknownFields = unknownFields
    }

    public var isPartitioned: Bool { unknownFields == nil ? own != credentialFree : plainOwn != credentialFree[...] }

    /// 0 if the request has no such fields.
    public var unknownFieldsHash: UInt64 { unknownFields?.hash ?? 0 }

    /// The own key without unknown fields.
    public var plainOwn: ArraySlice<UInt8> { unknownFields == nil ? own[...] : own.dropLast(UnknownFields.suffixBytes) }

    /// Returns whether the key belongs to the common partition.
    public func isCommon(_ key: [UInt8]) -> Bool { common.map(key.starts) ?? false }

    /// Keys with the common partition instead of the request's own.
    public var inCommon: TargetKeys {
        TargetKeys(own: common ?? Array(plainOwn), credentialFree: credentialFree, unknownFields: unknownFields)
    }

    /// Keys of responses that serve all requests, whatever unknown fields they have, except those that state the requested host.
    public var forAllFields: TargetKeys {
        guard let unknownFields else { return self }
        var keys = TargetKeys(own: Array(plainOwn), credentialFree: credentialFree, unknownFields: unknownFields.ofHosts)
        (keys.common, keys.former) = (common, former)
        return keys
    }

    /// Returns the keys of this request with `key` instead of `own`.
    public func at(_ key: [UInt8]) -> TargetKeys { TargetKeys(own: key, credentialFree: credentialFree, unknownFields: unknownFields) }
}
