// Where the responses to one request are looked up.

/// Where a copy lies that is the request's in a rescue alone. A class, since nearly no request has one and all hand it on.
public final class FormerKey: Sendable, Equatable {
    public let key: [UInt8]
    /// Why it may stand in.
    public let permission: SharedCopyPermission

    public init(_ key: [UInt8], _ permission: SharedCopyPermission) { (self.key, self.permission) = (key, permission) }

    public static func == (one: FormerKey, other: FormerKey) -> Bool { one.key == other.key && one.permission == other.permission }
}

/// The key of one target in the partition of its request, and in that of those without credentials. Without credentials they are the same.
public struct TargetKeys: Sendable, Equatable {
    /// With the hash of the request's unknown fields, if it has any.
    public let own: [UInt8]
    /// Without credentials and without unknown fields: marks of invalidations stand beside it.
    public let shared: [UInt8]
    /// In the partition that is common to all who send Authorization, and the same other credentials; nil where the route shares nothing.
    public var common: [UInt8]?
    /// In the partition of the user that its credentials were known to be of until now; nil otherwise. For a rescue alone.
    public var former: FormerKey?
    /// Fields by which the upstream may select without saying so; nil if the request has none, and where they do not count.
    public let unknownFields: UnknownFields?

    /// - Parameter own: without unknown fields.
    public init(own: [UInt8], shared: [UInt8], unknownFields: UnknownFields? = nil) {
        self.own = unknownFields.map { UnknownFields.key(own, hash: $0.hash) } ?? own
        self.shared = shared
        self.unknownFields = unknownFields
    }

    public var isPartitioned: Bool { unknownFields == nil ? own != shared : plainOwn != shared[...] }

    /// 0 if the request has no such fields.
    public var unknownFieldsHash: UInt64 { unknownFields?.hash ?? 0 }

    private var plainOwn: ArraySlice<UInt8> { unknownFields == nil ? own[...] : own.dropLast(UnknownFields.suffixBytes) }

    /// Whether what lies under this key lies in the common partition.
    public func isCommon(_ key: [UInt8]) -> Bool { common.map(key.starts) ?? false }

    /// With the common partition in the place of the request's own.
    public var inCommon: TargetKeys { TargetKeys(own: common ?? Array(plainOwn), shared: shared, unknownFields: unknownFields) }

    /// Where responses lie that are for all requests, whatever unknown fields they have.
    public var forAllFields: TargetKeys {
        guard unknownFields != nil else { return self }
        var keys = TargetKeys(own: Array(plainOwn), shared: shared)
        (keys.common, keys.former) = (common, former)
        return keys
    }

    /// Another key of the same request.
    public func at(_ key: [UInt8]) -> TargetKeys { TargetKeys(own: key, shared: shared, unknownFields: unknownFields) }
}
