// Where the responses to one request are looked up.

/// Where a copy lies that is the request's in a rescue alone. A class, since nearly no request has one and all hand it on.
package final class FormerKey: Sendable, Equatable {
    package let key: [UInt8]
    /// Why it may stand in.
    package let permission: SharedCopyPermission

    package init(_ key: [UInt8], _ permission: SharedCopyPermission) { (self.key, self.permission) = (key, permission) }

    package static func == (one: FormerKey, other: FormerKey) -> Bool { one.key == other.key && one.permission == other.permission }
}

/// The key of one target in the partition of its request, and in that of those without credentials. Without credentials they are the same.
package struct TargetKeys: Sendable, Equatable {
    package var own: [UInt8]
    package var shared: [UInt8]
    /// In the partition that is common to all who send Authorization, and the same other credentials; nil where the route shares nothing.
    package var common: [UInt8]?
    /// In the partition of the user that its credentials were known to be of until now; nil otherwise. For a rescue alone.
    package var former: FormerKey?

    package init(own: [UInt8], shared: [UInt8]) {
        self.own = own
        self.shared = shared
    }

    package var isPartitioned: Bool { own != shared }

    /// Whether what lies under this key lies in the common partition.
    package func isCommon(_ key: [UInt8]) -> Bool { common.map(key.starts) ?? false }

    /// With the common partition in the place of the request's own.
    package var inCommon: TargetKeys { TargetKeys(own: common ?? own, shared: shared) }
}
