// A temporary directory for a store that does not outlive the process.

import Glibc

/// A directory that is removed with everything in it by `remove` or when the object is released.
public final class TemporaryDirectory {
    public let path: String

    /// Creates the directory.
    /// - Returns: nil if it cannot be created.
    public init?(_ name: String, in parent: String = "/tmp") {
        var template = Array("\(parent)/\(name)-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { return nil }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { remove() }

    public func remove() { Self.remove(path) }

    private static func remove(_ directory: String) {
        for name in DirectoryState.names(in: directory) {
            // A symbolic link is removed and never followed.
            if unlink(directory + "/" + name) != 0, errno == EISDIR { remove(directory + "/" + name) }
        }
        rmdir(directory)
    }
}
