// A temporary directory for a store that does not outlive the process.

import Glibc

/// A directory that is removed with its files by `remove` or when the object is released. Subdirectories are not removed.
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

    public func remove() {
        guard let handle = opendir(path) else { return }
        while let entry = readdir(handle) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if name != ".", name != ".." { unlink(path + "/" + name) }
        }
        closedir(handle)
        rmdir(path)
    }
}
