// A directory for a store that need not outlive the process.

import Glibc

/// Made now, removed with its files when nobody holds it any more, or at `remove`. Directories within it stay.
public final class TemporaryDirectory {
    public let path: String

    /// - Returns: nil where none can be made.
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
