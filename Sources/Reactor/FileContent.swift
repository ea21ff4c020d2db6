// Reads small files as a whole.

import Glibc

public enum FileContent {
    public enum Kind: Sendable {
        case any
        /// A regular file. Excludes pipes and devices, on which a read could block for ever.
        case regular
        /// A regular file that is not a symbolic link.
        case own
    }

    /// Returns the file's bytes; nil, with `errno`, if it cannot be read. `ENODEV` means that the file is not of this kind, `EFBIG` that it
    /// is longer than the limit.
    /// - Parameter limit: maximum length in bytes.
    public static func read(_ path: String, limit: Int = 1 << 20, _ kind: Kind = .any) -> [UInt8]? {
        let file = Descriptor(open(path, O_RDONLY | O_CLOEXEC | flags(kind)))
        guard file.isOpen, kind == .any || isRegular(file) else { return nil }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = Glibc.read(file.number, &piece, min(piece.count, limit + 1 - bytes.count))
            guard count >= 0 else { return nil }
            if count == 0 { return bytes }
            bytes += piece[..<count]
            guard bytes.count <= limit else {
                errno = EFBIG
                return nil
            }
        }
    }

    private static func flags(_ kind: Kind) -> Int32 {
        switch kind {
        case .any: 0
        case .regular: O_NONBLOCK
        case .own: O_NONBLOCK | O_NOFOLLOW
        }
    }

    private static func isRegular(_ file: borrowing Descriptor) -> Bool {
        var status = stat()
        guard fstat(file.number, &status) == 0 else { return false }
        if status.st_mode & S_IFMT == S_IFREG { return true }
        errno = status.st_mode & S_IFMT == S_IFDIR ? EISDIR : ENODEV
        return false
    }
}
