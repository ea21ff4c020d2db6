// A simulated disk that others fill and empty, and that fails. Only the store's own files are real.

import CSystem
import Glibc
import Reactor

@testable import CacheStore

final class ModelDisk: Sendable {
    private struct State {
        var totalBytes: Int
        var othersBytes = 0
        /// Error of all writes; 0 for none.
        var writeError: Int32 = 0
        var allocateError: Int32 = 0
        var tellsRoom = true
        var beforeChange: (@Sendable () -> Void)?
    }

    private let state: Mutex<State>

    init(bytes: Int) { state = Mutex(State(totalBytes: bytes)) }

    func failWrites(_ error: Int32) { state.withLock { $0.writeError = error } }

    /// Makes the creation of files fail.
    func failFiles(_ error: Int32) { state.withLock { $0.allocateError = error } }

    /// Lets others fill all free space.
    func fill(_ path: String) { setOthers(state.withLock { $0.totalBytes } - usedBytes(path)) }

    func setOthers(_ bytes: Int) { state.withLock { $0.othersBytes = bytes } }

    /// - Parameter body: called before each write and each new file, on the writer's queue.
    func beforeChanges(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.beforeChange = body } }

    /// Hides the free space. A quota, for example, does not reduce the reported free space.
    func hideRoom() { state.withLock { $0.tellsRoom = false } }

    func usedBytes(_ path: String) -> Int {
        names(in: path).reduce(0) { sum, name in
            name.hasPrefix("segment-") || name == "reserve" ? sum + size(of: path + "/" + name) : sum
        }
    }

    private func free(_ path: String) -> Int {
        let used = usedBytes(path)
        return state.withLock { max(0, $0.totalBytes - used - min($0.othersBytes, max(0, $0.totalBytes - used))) }
    }

    func settings(_ path: String, capacity: Int, segment: Int? = nil) -> StoreSettings {
        var settings = StoreSettings(directory: path, capacityBytes: capacity, segmentBytes: segment)
        settings.retryMilliseconds = 0
        settings.diskSpace = { [self] path in
            guard state.withLock({ $0.tellsRoom }) else { return DiskSpace(freeBytes: 1 << 40, totalBytes: 1 << 41) }
            return DiskSpace(freeBytes: free(path), totalBytes: state.withLock { $0.totalBytes })
        }
        settings.allocate = { [self] descriptor, bytes in
            state.withLock { $0.beforeChange }?()
            let (error, tells) = state.withLock { ($0.allocateError, $0.tellsRoom) }
            if error != 0 { return error }
            guard free(path) >= bytes else { return tells ? ENOSPC : EDQUOT }
            return csystem_allocate(descriptor, bytes)
        }
        settings.write = { [self] descriptor, bytes, offset in
            state.withLock { $0.beforeChange }?()
            let error = state.withLock { $0.writeError }
            if error != 0 {
                // A part of the data may be on the disk.
                _ = WholeWrite.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(bytes.count / 2)), to: descriptor, at: offset)
                return error
            }
            return WholeWrite.write(bytes, to: descriptor, at: offset) == bytes.count ? 0 : EIO
        }
        return settings
    }
}
