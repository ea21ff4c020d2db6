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
    public var own: [UInt8]
    public var shared: [UInt8]
    /// In the partition that is common to all who send Authorization, and the same other credentials; nil where the route shares nothing.
    public var common: [UInt8]?
    /// In the partition of the user that its credentials were known to be of until now; nil otherwise. For a rescue alone.
    public var former: FormerKey?

    public init(own: [UInt8], shared: [UInt8]) {
        self.own = own
        self.shared = shared
    }

    @inlinable public var isPartitioned: Bool { own != shared }

    /// Whether what lies under this key lies in the common partition.
    public func isCommon(_ key: [UInt8]) -> Bool { common.map(key.starts) ?? false }

    /// With the common partition in the place of the request's own.
    public var inCommon: TargetKeys { TargetKeys(own: common ?? own, shared: shared) }
}
