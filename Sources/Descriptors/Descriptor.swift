// One open descriptor. It has one owner, is not copied, and is closed once: with its owner, or sooner.

import Glibc

public struct Descriptor: ~Copyable, Sendable {
    /// -1 where nothing is open. For calls of the kernel only: who keeps the number does not keep the descriptor.
    public private(set) var number: Int32

    /// Takes over what a call of the kernel has returned. Where that is an error, `errno` tells which.
    public init(_ number: Int32) { self.number = max(-1, number) }

    deinit {
        if number >= 0 { _ = Glibc.close(number) }
    }

    public var isOpen: Bool { number >= 0 }

    /// Now, and not with its owner. The number may be another's from here on.
    public mutating func close() {
        if number >= 0 { _ = Glibc.close(number) }
        number = -1
    }
}
