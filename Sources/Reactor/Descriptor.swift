// An open file descriptor with one owner. Not copyable. Closed once: on deinitialization or earlier.

import Glibc

public struct Descriptor: ~Copyable, Sendable {
    /// -1 if no descriptor is open. Only for system calls: holding the number does not keep the descriptor open.
    public private(set) var number: Int32

    /// Takes ownership of the result of a system call. If that is an error, `errno` has the reason.
    public init(_ number: Int32) { self.number = max(-1, number) }

    deinit {
        if number >= 0 { _ = Glibc.close(number) }
    }

    public var isOpen: Bool { number >= 0 }

    /// Compares the open file with the one at a path. Symbolic links are not followed.
    /// - Returns: 0 if they are one file; `ENOENT` if the path leads to another file or none; otherwise the errno of the failed call.
    public func displacement(from path: String) -> Int32 {
        var (own, there) = (stat(), stat())
        guard fstat(number, &own) == 0, lstat(path, &there) == 0 else { return errno }
        return (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) ? 0 : ENOENT
    }

    /// Closes the descriptor before its owner ends. Its number may be reused afterwards.
    public mutating func close() {
        if number >= 0 { _ = Glibc.close(number) }
        number = -1
    }
}
