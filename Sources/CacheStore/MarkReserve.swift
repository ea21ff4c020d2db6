// Reserved space for removals and marks on a full disk: a small preallocated file that becomes the next segment if no other file can be
// created. It ensures that a purged response does not reappear after a restart.

import CSystem
import Glibc
import Reactor

enum MarkReserve {
    /// Size of the reserve: about two thousand removals or a thousand tombstones.
    static let bytes = 128 << 10

    private static func path(_ directory: String) -> String { directory + "/reserve" }

    /// Creates the file if it is missing and the disk has space for it.
    static func make(_ settings: StoreSettings) {
        let path = path(settings.directory)
        var status = stat()
        if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size == bytes { return }
        unlink(path)
        let file = Descriptor(csystem_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard file.isOpen else { return }
        if settings.allocate(file.number, bytes) != 0 { unlink(path) }
    }

    /// Renames the reserve to the next segment and opens it.
    /// - Parameter number: number of the next segment.
    /// - Returns: nil if there is no reserve, or it cannot be opened.
    static func use(as number: UInt64, _ settings: StoreSettings) -> Segment? {
        let target = Segment.path(number, settings.directory)
        var status = stat()
        guard lstat(target, &status) != 0, rename(path(settings.directory), target) == 0 else { return nil }
        if let segment = try? Segment(opening: number, in: settings.directory, isWritable: true) { return segment }
        rename(target, path(settings.directory))
        return nil
    }
}
