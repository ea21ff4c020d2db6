// Where the responses to one request are looked up.

/// The key of one target in the partition of its request, and in that of those without credentials. Without credentials they are the same.
package struct TargetKeys: Sendable, Equatable {
    package var own: [UInt8]
    package var shared: [UInt8]

    package init(own: [UInt8], shared: [UInt8]) {
        self.own = own
        self.shared = shared
    }

    package var isPartitioned: Bool { own != shared }
}
