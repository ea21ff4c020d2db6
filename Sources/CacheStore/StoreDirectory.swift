// The directory of a store: created if missing, locked against a second process, with the secret key of its hashes.

import CHash
import CSystem
import Glibc
import Reactor

import struct Synchronization.Atomic

/// An opened cache directory. Holds the lock for its lifetime.
final class StoreDirectory: Sendable {
    let path: String
    /// Whether the directory was opened for writing, at the start or when the key was written later.
    var isWritable: Bool { writable.load(ordering: .acquiring) }
    /// errno of opening at the start; 0 on success.
    var error: Int32 { openingError.load(ordering: .acquiring) }
    private let openingError: Atomic<Int32>
    /// True if this process holds the lock and only writing the key failed, which can be retried.
    let lacksKeyOnly: Bool
    /// Set by the store's writer and read by all shards.
    private let writable: Atomic<Bool>
    /// Whether the key was created by this start.
    let isNew: Bool
    /// Whether the key exists and could not be read, for another reason than damage. It is kept for a later start, and no record can be
    /// read.
    let isKeyUnreadable: Bool
    /// Whether other users have permissions on the key file.
    let isKeyOpen: Bool
    /// Secret key of all hashes. Created at the first start and kept in the file `key` (mode 0600).
    let secret: [UInt8]
    private let lock: DirectoryLock

    static let keyBytes = 32

    init(_ path: String) throws(StoreError) {
        self.path = path
        let makeError = Self.make(path)
        if let fault = DirectoryFault.findUnsafe(at: path) { throw .unsafe(fault) }
        let lock = Descriptor(csystem_open(path + "/lock", O_RDWR | O_CREAT | Segment.plain, 0o600))
        var lockError = lock.isOpen ? 0 : errno
        // Reports why the directory could not be created, not that it is missing.
        if lockError == ENOENT, makeError != 0 { lockError = makeError }
        if lock.isOpen, flock(lock.number, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK { throw .lockedByAnotherProcess(path) }
        let loaded = Self.loadSecret(path + "/key", mayWrite: lock.isOpen)
        self.lock = DirectoryLock(lock, isOurs: true)
        secret = loaded.secret
        isNew = loaded.isNew
        var status = stat()
        isKeyOpen = !isNew && lstat(path + "/key", &status) == 0 && status.st_mode & 0o077 != 0
        isKeyUnreadable = loaded.isUnreadable
        let code = lockError != 0 && !loaded.isUnreadable ? lockError : loaded.error
        openingError = Atomic(code)
        lacksKeyOnly = lockError == 0 && loaded.error != 0 && !loaded.isUnreadable
        writable = Atomic(code == 0)
    }

    /// Opens the directory of another process that is about to end. Creates nothing, and the lock belongs to the other process until
    /// `take`.
    init(_ path: String, inherited lock: consuming Descriptor) throws(StoreError) {
        self.path = path
        guard lock.displacement(from: path + "/lock") == 0 else { throw .otherDirectory(path) }
        if let fault = DirectoryFault.findUnsafe(at: path) { throw .unsafe(fault) }
        let loaded = Self.loadSecret(path + "/key", mayWrite: false)
        guard !loaded.isUnreadable else { throw .unreadable(path + "/key", code: loaded.error) }
        guard !loaded.isNew else { throw .notHandedOver(path) }
        self.lock = DirectoryLock(lock, isOurs: false)
        (secret, isNew, isKeyUnreadable, lacksKeyOnly) = (loaded.secret, false, false, false)
        openingError = Atomic(0)
        writable = Atomic(true)
        var status = stat()
        isKeyOpen = lstat(path + "/key", &status) == 0 && status.st_mode & 0o077 != 0
    }

    deinit {
        unlock()
    }

    /// Returns a duplicate of the lock's descriptor for another process. A lock of `flock` belongs to the open file, which both processes
    /// then share.
    func copyOfLock() -> Descriptor { lock.copy() }

    /// Makes this process the owner of the lock.
    func take() { lock.take() }

    /// Gives the lock to another process. The descriptor is only closed, because unlocking would release the lock for both processes.
    func leave() { lock.leave() }

    /// Releases the lock explicitly. Closing is not enough: a child process that is being started may hold a copy of the descriptor.
    func unlock() { lock.unlock() }

    /// Creates the directory and its ancestors.
    /// - Returns: errno of the last directory that could not be created; 0 if all exist now.
    private static func make(_ path: String) -> Int32 {
        var partial = path.hasPrefix("/") ? "" : "."
        var error: Int32 = 0
        for name in path.split(separator: "/") {
            partial += "/" + name
            error = mkdir(partial, 0o700) == 0 || errno == EEXIST ? 0 : errno == ENOENT && error != 0 ? error : errno
        }
        return error
    }

    /// Leaves all files of the directory as they are from now on. Must be called before anything is written.
    /// - Parameter code: errno of a file that could not be read.
    func refuseWrites(_ code: Int32) {
        openingError.store(code, ordering: .releasing)
        writable.store(false, ordering: .releasing)
    }

    private struct LoadedKey {
        let secret: [UInt8]
        var isNew = false
        var isUnreadable = false
        /// errno of reading or writing the key; 0 on success.
        var error: Int32 = 0
    }

    /// Reads the key. Creates a new one only if there is none, or if the file cannot be a key: it is too short or not a regular file.
    private static func loadSecret(_ path: String, mayWrite: Bool) -> LoadedKey {
        var secret = [UInt8](repeating: 0, count: keyBytes)
        let existing = Descriptor(csystem_open(path, O_RDONLY | Segment.plain, 0))
        let count = existing.isOpen ? read(existing.number, &secret, keyBytes) : -1
        let readError = count < 0 ? errno : 0
        if count == keyBytes { return LoadedKey(secret: secret) }
        precondition(chash_start() >= 0, "no source of random numbers is available")
        randombytes_buf(&secret, keyBytes)
        guard readError == 0 || Segment.meansNoFile(readError) else {
            return LoadedKey(secret: secret, isUnreadable: true, error: readError)
        }
        return LoadedKey(secret: secret, isNew: true, error: mayWrite ? save(secret, path) : EACCES)
    }

    /// Writes the key to its file.
    /// - Returns: an errno; 0 on success.
    private static func save(_ secret: [UInt8], _ path: String) -> Int32 {
        unlink(path)
        let new = Descriptor(csystem_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard new.isOpen else { return errno }
        if WholeWrite.write(secret, to: new.number) == keyBytes, fsync(new.number) == 0 { return 0 }
        let error = errno
        unlink(path)
        return error
    }

    /// Makes the directory, the lock and the key again if they were removed, and retries to write the key. Must be called before files are
    /// created or replaced. While the lock is in its place, a key that cannot be read is no obstacle, because the secret is in memory.
    /// - Parameter makesDirectory: false if nothing is made where no directory exists.
    /// - Returns: an errno; 0 if the directory can be written to now. `EBUSY` if another process or another store uses it.
    func restore(makesDirectory: Bool = true) -> Int32 {
        guard isWritable || lacksKeyOnly else { return error }
        let key = FileContent.read(path + "/key", .own)
        let keyError = key == nil ? errno : 0
        let isMissing = key.map { $0.count < Self.keyBytes } ?? (keyError == ENOENT)
        let isLocked = lock.isFile(at: path + "/lock")
        if !isMissing, let key, !key.starts(with: secret) { return EBUSY }
        if !isMissing, key == nil, !isLocked || !isWritable && !Segment.meansNoFile(keyError) { return keyError }
        if isWritable, !isMissing, isLocked { return 0 }
        if makesDirectory { _ = Self.make(path) }
        guard DirectoryFault.findUnsafe(at: path) == nil else { return EACCES }
        var error = isLocked ? 0 : lock.replace(path + "/lock")
        if error == 0, isMissing || !isWritable { error = Self.save(secret, path + "/key") }
        if error == 0 { writable.store(true, ordering: .releasing) }
        return error
    }

    /// Checks that a small file can be allocated, which fails on a full disk.
    /// - Returns: an errno; 0 on success.
    func probe(_ settings: StoreSettings) -> Int32 {
        let file = path + "/probe"
        let probe = Descriptor(csystem_open(file, O_WRONLY | O_CREAT | O_TRUNC | Segment.plain, 0o600))
        guard probe.isOpen else { return errno }
        defer { unlink(file) }
        return settings.allocate(probe.number, Self.probeBytes)
    }

    private static let probeBytes = 64 << 10

    /// Numbers of the segment files, oldest first.
    func segmentNumbers() -> [UInt64] { listSegments().numbers }

    /// Lists the segment files.
    /// - Returns: their numbers, oldest first, and the errno of reading the directory; 0 if all were listed.
    func listSegments() -> (numbers: [UInt64], error: Int32) {
        let (names, error) = DirectoryState.list(path)
        return (names.compactMap { Segment.number(ofFile: $0) }.sorted(), error)
    }
}

/// `@unchecked Sendable` because all of its state is behind its mutex.
private final class DirectoryLock: @unchecked Sendable {
    private var descriptor: Descriptor
    private var isOurs: Bool
    private let mutex = Mutex(())

    init(_ descriptor: consuming Descriptor, isOurs: Bool) {
        self.descriptor = descriptor
        self.isOurs = isOurs
    }

    /// Returns a duplicate of the descriptor; not open if the lock file is not open.
    func copy() -> Descriptor {
        let number: Int32 = mutex.withLock { _ in descriptor.isOpen ? csystem_duplicate(descriptor.number) : -1 }
        return Descriptor(number)
    }

    func take() { mutex.withLock { _ in isOurs = true } }

    func leave() {
        mutex.withLock { _ in
            isOurs = false
            descriptor.close()
        }
    }

    /// Whether the locked file is the one at the path. Otherwise it was removed.
    func isFile(at path: String) -> Bool { mutex.withLock { _ in descriptor.displacement(from: path) == 0 } }

    /// Locks the file at the path instead of the one that was removed. As at the start, a file system without locks is no obstacle.
    /// - Returns: an errno; 0 on success. `EBUSY` if another process has locked it.
    func replace(_ path: String) -> Int32 {
        mutex.withLock { _ in
            let new = Descriptor(csystem_open(path, O_RDWR | O_CREAT | Segment.plain, 0o600))
            guard new.isOpen else { return errno }
            guard flock(new.number, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else { return EBUSY }
            descriptor = new
            return 0
        }
    }

    func unlock() { mutex.withLock { _ in if isOurs, descriptor.isOpen { flock(descriptor.number, LOCK_UN) } } }
}
