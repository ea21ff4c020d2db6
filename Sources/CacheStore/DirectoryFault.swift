// Checks the configured cache directory before anything is created in it. Detects paths that must be a mistake, and files that other users
// can change. A full, read-only or damaged file system is not reported here.

import CSystem
import Glibc
import Reactor

public enum DirectoryFault: Error, Equatable, CustomStringConvertible {
    /// The path, or an ancestor of it, is a file.
    case noDirectory(String)
    /// The parent directory does not exist.
    case noParent(String, parent: String)
    /// The directory, or its lock file (`part`), belongs to another user, and this process may not write to it.
    case ownedByOtherUser(String, part: String, owner: uid_t)
    /// The directory, a file in it or an ancestor belongs to another user, who could add responses.
    case ownedByAnother(String, part: String, owner: uid_t)
    /// Other users may write to the directory, to a file in it or to an ancestor.
    case writableByOthers(String, part: String)

    public var description: String {
        switch self {
        case .noDirectory(let path): "the cache directory \(path) cannot be used: \(Self.file(in: path)) is not a directory"
        case .noParent(let path, let parent): "the cache directory \(path) cannot be created: \(parent) does not exist"
        case .ownedByOtherUser(let path, let part, let owner):
            "the cache directory \(path) \(part == path ? "" : "cannot be used: \(part) ")belongs to user \(owner), and this process "
                + "runs as user \(geteuid()), which has no write permission"
        case .ownedByAnother(let path, let part, let owner):
            "the cache directory \(path) is not safe: \(part) belongs to user \(owner), who could add responses; "
                + "give it to user \(geteuid()) or choose another directory"
        case .writableByOthers(let path, let part):
            "the cache directory \(path) is not safe: other users may write to \(part) and could add responses; run chmod go-w \(part)"
        }
    }

    /// Returns the fault of a configured path; nil if the path can be used. Changes nothing.
    /// - Parameter makesParents: whether missing parent directories are created. True for default paths that the operator did not choose.
    public static func find(at path: String, makesParents: Bool) -> DirectoryFault? {
        switch status(path) {
        case .found(let status) where status.st_mode & S_IFMT != S_IFDIR: return .noDirectory(path)
        case .found(let status): return findOtherOwner(of: path, status) ?? findUnsafe(at: path)
        case .failed(ENOTDIR): return .noDirectory(path)
        case .failed(ENOENT): break
        case .failed: return nil
        }
        guard !makesParents else { return findUnsafe(at: path) }
        let parent = parent(of: path)
        guard case .failed(let code) = status(parent) else { return findUnsafe(at: path) }
        return code == ENOENT ? .noParent(path, parent: parent) : nil
    }

    /// Checks whether another user can change stored responses, by rules like those of ssh. The directory, its files and all ancestors must
    /// belong to root or this user, and other users may not write to them. An ancestor may be sticky, because users cannot replace files of
    /// other users there.
    static func findUnsafe(at path: String) -> DirectoryFault? {
        // All processes with access to these files run in one container. Directories of root may then be writable by all users, because
        // orchestrators create volumes like that.
        let isAlone = getpid() == 1
        guard let (directory, exists) = resolved(path) else { return nil }
        var part = directory
        while true {
            guard case .found(let status) = Self.status(part) else { return nil }
            guard isOurs(status) else { return .ownedByAnother(path, part: part, owner: status.st_uid) }
            let isSticky = status.st_mode & S_ISVTX != 0 && (part != directory || !exists)
            if isWritable(status), !isSticky, !isAlone || status.st_uid != 0 { return .writableByOthers(path, part: part) }
            guard part != "/" else { break }
            part = parent(of: part)
            if part.isEmpty { part = "/" }
        }
        return exists ? findUnsafeFile(in: directory, of: path) : nil
    }

    private static func isOurs(_ status: stat) -> Bool { status.st_uid == 0 || status.st_uid == geteuid() }
    private static func isWritable(_ status: stat) -> Bool { status.st_mode & 0o022 != 0 }

    private static func findUnsafeFile(in directory: String, of path: String) -> DirectoryFault? {
        for name in DirectoryState.names(in: directory) {
            let part = "\(directory)/\(name)"
            var status = stat()
            guard lstat(part, &status) == 0 else { continue }
            switch status.st_mode & S_IFMT {
            // Symbolic links are never followed.
            case S_IFREG where !isOurs(status): return .ownedByAnother(path, part: part, owner: status.st_uid)
            case S_IFREG where isWritable(status): return .writableByOthers(path, part: part)
            default: break
            }
        }
        return nil
    }

    /// Resolves symbolic links of the directory, or of its nearest existing ancestor. Returns nil if that fails.
    private static func resolved(_ path: String) -> (directory: String, exists: Bool)? {
        var (part, exists) = (path, true)
        while true {
            if let real = realpath(part, nil) {
                defer { free(real) }
                return (String(cString: real), exists)
            }
            guard errno == ENOENT, part != "/", part != "." else { return nil }
            (part, exists) = (parent(of: part), false)
        }
    }

    /// Checks whether another user owns the directory or its lock file, and this process has no write access. The lock file may be left
    /// over from a start as root.
    private static func findOtherOwner(of path: String, _ directory: stat) -> DirectoryFault? {
        if directory.st_uid != geteuid(), faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0, errno == EACCES {
            return .ownedByOtherUser(path, part: path, owner: directory.st_uid)
        }
        let file = path + "/lock"
        guard case .found(let lock) = status(file), lock.st_uid != geteuid(), faccessat(AT_FDCWD, file, R_OK | W_OK, AT_EACCESS) != 0,
            errno == EACCES
        else { return nil }
        return .ownedByOtherUser(path, part: file, owner: lock.st_uid)
    }

    private enum Status {
        case found(stat)
        case failed(Int32)
    }

    private static func status(_ path: String) -> Status {
        var status = stat()
        return stat(path, &status) == 0 ? .found(status) : .failed(errno)
    }

    static func parent(of path: String) -> String {
        let names = path.split(separator: "/")
        let start = path.hasPrefix("/") ? "/" : ""
        let parent = start + names.dropLast().joined(separator: "/")
        return parent.isEmpty ? "." : parent
    }

    /// Returns the first component of the path that exists and is not a directory.
    private static func file(in path: String) -> String {
        var partial = path.hasPrefix("/") ? "" : "."
        for name in path.split(separator: "/") {
            partial += "/" + name
            if case .found(let status) = status(partial), status.st_mode & S_IFMT != S_IFDIR { return partial }
        }
        return path
    }
}

/// State of a cache directory, read without opening the store. For commands that only report.
public enum DirectoryState {
    /// Returns the process that took the directory's lock, read from `/proc/locks` without taking the lock; nil if no process holds it.
    /// After a take-over, that process has ended.
    public static func holder(of path: String) -> pid_t? {
        var status = stat()
        guard stat(path + "/lock", &status) == 0, let locks = FileContent.read("/proc/locks") else { return nil }
        let (major, minor) = (status.st_dev >> 8 & 0xfff, status.st_dev & 0xff | status.st_dev >> 12 & 0xfff00)
        for line in String(decoding: locks, as: UTF8.self).split(separator: "\n") {
            // 1: FLOCK  ADVISORY  WRITE 1234 fd:01:393284 0 EOF
            let words = line.split(separator: " ")
            guard words.count >= 6, words[1] == "FLOCK", let process = pid_t(words[4]) else { continue }
            let deviceAndInode = words[5].split(separator: ":")
            guard deviceAndInode.count == 3, UInt64(deviceAndInode[2]) == UInt64(status.st_ino) else { continue }
            if UInt64(deviceAndInode[0], radix: 16) == UInt64(major), UInt64(deviceAndInode[1], radix: 16) == UInt64(minor) {
                return process
            }
        }
        return nil
    }

    /// Bytes that a store in this directory may use: free space plus its present size; nil if the system does not report it.
    public static func availableBytes(at path: String) -> Int? {
        var part = path
        while access(part, F_OK) != 0, errno == ENOENT, part != "/", part != "." { part = DirectoryFault.parent(of: part) }
        return DiskSpace.read(part).map { $0.freeBytes + fileBytes(in: path) }
    }

    private static func fileBytes(in path: String) -> Int {
        var bytes = 0
        for name in names(in: path) {
            var status = stat()
            if lstat(path + "/" + name, &status) == 0, status.st_mode & S_IFMT == S_IFREG { bytes += Int(status.st_blocks) * 512 }
        }
        return bytes
    }

    /// Names of the files and directories in a directory; empty if it cannot be read.
    static func names(in path: String) -> [String] { list(path).names }

    /// Lists the files and directories in a directory.
    /// - Returns: the names that were read, and an errno; 0 if these are all names.
    static func list(_ path: String) -> (names: [String], error: Int32) {
        guard let directory = opendir(path) else { return ([], errno) }
        defer { closedir(directory) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else { return (names, errno) }
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if name != ".", name != ".." { names.append(name) }
        }
    }

    /// The errno that a write in this directory would cause now; 0 if it would succeed. It fails on a read-only or full file system,
    /// without free inodes, or without permission.
    public static func writeError(at path: String) -> Int32 {
        var system = statvfs()
        guard statvfs(path, &system) == 0 else {
            guard errno == ENOENT else { return errno }
            // The directory would be created in its nearest existing ancestor.
            let parent = DirectoryFault.parent(of: path)
            return parent == path || parent == "." ? 0 : writeError(at: parent)
        }
        if system.f_flag & UInt(ST_RDONLY) != 0 { return EROFS }
        if system.f_bavail == 0 || system.f_files > 0 && system.f_favail == 0 { return ENOSPC }
        return faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno
    }
}
