// A small file, read as a whole.

import Glibc

package enum FileContent {
    /// The file's bytes; nil, with `errno`, where it cannot be read.
    /// - Parameters:
    ///   - limit: what is read at most; no configuration is larger than 1 MiB.
    ///   - isOwn: the path must be a file itself, neither a link to one elsewhere nor something that others would have to write to first.
    package static func read(_ path: String, limit: Int = 1 << 20, isOwn: Bool = false) -> [UInt8]? {
        let file = Descriptor(open(path, O_RDONLY | O_CLOEXEC | (isOwn ? O_NOFOLLOW | O_NONBLOCK : 0)))
        guard file.isOpen else { return nil }
        var status = stat()
        if isOwn, fstat(file.number, &status) != 0 || status.st_mode & S_IFMT != S_IFREG { return nil }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count < limit {
            let count = Glibc.read(file.number, &piece, min(piece.count, limit - bytes.count))
            guard count >= 0 else { return nil }
            if count == 0 { break }
            bytes += piece[..<count]
        }
        return bytes
    }
}
