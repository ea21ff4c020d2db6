// Adds captured exchanges to an archive that may have changed since the replay has read it.

import Archives
import Glibc
import Reactor

enum ArchiveUpdate {
    /// Adds entries to the archive as it is now, so that edits, and entries of concurrent replays, are kept. If the archive is no longer
    /// valid, or would become too long, the entries are written to another file.
    static func add(_ entries: [[UInt8]], _ writer: ArchiveWriter, to file: NewFile) throws {
        let lock = try ArchiveLock(file.path)
        defer { withExtendedLifetime(lock) {} }
        let pieces: [[UInt8]]
        do throws(ArchiveReader.Mistake) {
            let archive = try ArchiveReader(try ArchiveFile.read(file.path, isOptional: true))
            guard archive.byteCount + entries.reduce(0, { $0 + $1.count }) < ArchiveReader.limitBytes else {
                throw ArchiveReader.Mistake("it would be longer than \(ArchiveReader.limitBytes >> 20) MiB")
            }
            pieces = writer.pieces(of: archive, adding: entries)
        } catch {
            let other = try NewFile("\(file.path).captured")
            try other.finish(with: writer.pieces(of: ArchiveReader(ArchiveFile.empty), adding: entries))
            throw AdminFailure("\(file.path): \(error); the captured exchanges are in \(other.path)")
        }
        try file.finish(with: pieces)
    }
}

/// Exclusive lock of an archive among the replays that add entries. Creates the file if it does not exist.
private final class ArchiveLock {
    private let file: Descriptor

    init(_ path: String) throws(NewFile.Failure) {
        while true {
            let file = Descriptor(open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0o600))
            guard file.isOpen, flock(file.number, LOCK_EX) == 0 else { throw NewFile.Failure(path) }
            var (locked, named) = (stat(), stat())
            // Another replay may have replaced the file meanwhile.
            let isCurrent = fstat(file.number, &locked) == 0 && stat(path, &named) == 0 && locked.st_ino == named.st_ino
            if isCurrent, locked.st_dev == named.st_dev {
                self.file = file
                return
            }
        }
    }
}

enum ArchiveFile {
    /// An archive without entries.
    static let empty = Array("{\"log\":{\"entries\":[]}}".utf8)

    /// - Parameter isOptional: whether an archive without entries is returned if the file does not exist or is empty.
    /// - Throws: a sentence if the file cannot be read. `ArchiveReader` rejects files that are too long.
    static func read(_ path: String, isOptional: Bool = false) throws(ArchiveReader.Mistake) -> [UInt8] {
        if let bytes = FileContent.read(path, limit: ArchiveReader.limitBytes + 1) { return isOptional && bytes.isEmpty ? empty : bytes }
        guard isOptional, errno == ENOENT else { throw ArchiveReader.Mistake(SystemError.words()) }
        return empty
    }
}

enum FilePath {
    /// Absolute path without symbolic links; the path itself if its directory does not exist. The file need not exist.
    static func resolved(_ path: String) -> String {
        if let real = real(path) { return real }
        let slash = path.lastIndex(of: "/")
        let directory = slash.map { String(path[...$0]) } ?? "."
        let name = slash.map { path[path.index(after: $0)...] } ?? path[...]
        return real(directory).map { ($0 == "/" ? "" : $0) + "/" + name } ?? path
    }

    /// Permissions of a file; nil if there is none.
    static func mode(_ path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
    }

    private static func real(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }
}
