// Helpers for tests of the store: a directory to damage, and items identified by numbers.

import CSystem
import Glibc
import Testing

@testable import CacheStore

func names(in path: String) -> [String] { DirectoryState.names(in: path).sorted() }

func size(of path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
}

func copyFile(_ path: String, to target: String) {
    let (from, to) = (csystem_open(path, O_RDONLY, 0), csystem_open(target, O_WRONLY | O_CREAT, 0o600))
    defer {
        close(from)
        close(to)
    }
    var piece = [UInt8](repeating: 0, count: 1 << 20)
    while true {
        let count = read(from, &piece, piece.count)
        guard count > 0 else { return }
        write(to, piece, count)
    }
}

/// A temporary directory, deleted on deinitialization.
final class Directory {
    private let temporary: TemporaryDirectory
    var path: String { temporary.path }

    init() throws { temporary = try #require(TemporaryDirectory("cistern-store")) }

    /// Copies a directory without its lock.
    static func copy(of path: String) throws -> Directory {
        let copy = try Directory()
        for file in names(in: path) where file != "lock" { copyFile(path + "/" + file, to: copy.path + "/" + file) }
        return copy
    }

    var files: [String] { names(in: path) }
    var segments: [String] { files.filter { $0.hasPrefix("segment-") } }

    func size(_ name: String) -> Int { CacheStoreTests.size(of: path + "/" + name) }

    func flip(_ name: String, at offset: Int) {
        let descriptor = csystem_open(path + "/" + name, O_RDWR, 0)
        defer { close(descriptor) }
        var byte: UInt8 = 0
        pread(descriptor, &byte, 1, off_t(offset))
        byte ^= 0x10
        pwrite(descriptor, &byte, 1, off_t(offset))
    }

    /// - Parameter allocate: replaces the allocation of blocks for new files.
    func open(
        _ capacity: Int = 8 << 20, segment: Int = 1 << 20, gatheringMilliseconds: Int = 5,
        allocate: @escaping @Sendable (Int32, Int) -> Int32 = { csystem_allocate($0, $1) }
    ) throws -> ResponseStore {
        var settings = StoreSettings(directory: path, capacityBytes: capacity, segmentBytes: segment)
        settings.allocate = allocate
        settings.gatheringMilliseconds = gatheringMilliseconds
        settings.retryMilliseconds = 0
        return try ResponseStore(settings)
    }
}

func key(_ number: Int) -> [UInt8] { Array("key-\(number)".utf8) }
/// Beginnings of bodies, which repeat them.
private let beginnings: [[UInt8]] = (0..<256).map { number in (0..<256).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ number) } }

/// A body in which neighbouring bytes differ, and which depends on the item's number. Copied in blocks, because single bytes take long in
/// debug builds.
func body(_ number: Int, _ count: Int = 500) -> [UInt8] {
    let beginning = beginnings[number & 0xff]
    return [UInt8](unsafeUninitializedCapacity: count) { bytes, filled in
        guard let base = bytes.baseAddress else { return }
        filled = min(count, beginning.count)
        memcpy(base, beginning, filled)
        while filled < count {
            let more = min(filled, count - filled)
            memcpy(base + filled, base, more)
            filled += more
        }
    }
}

func item(_ number: Int, _ count: Int = 500, retention: Retention = .mayRescue) -> NewItem {
    NewItem(key: key(number), metadata: [1, 2, 3], head: Array("head \(number)".utf8), body: body(number, count), retention: retention)
}

/// Stores long items and waits until they are written.
func fillLong(_ store: ResponseStore, _ numbers: Range<Int>) {
    insertLong(store, numbers)
    store.flush()
}

/// Ten of these items nearly fill a segment of 1 MiB.
func insertLong(_ store: ResponseStore, _ numbers: Range<Int>) {
    let body = [UInt8](repeating: 7, count: 100_000)
    for number in numbers { store.insert(NewItem(key: key(number), metadata: [], head: [], body: body, retention: .mayRescue)) }
}

/// The stored body, after a check of the other parts.
func stored(_ store: ResponseStore, _ number: Int) -> [UInt8]? {
    let bytes = key(number)
    guard let found = store.lookUp(bytes.span) else { return nil }
    #expect(Array(found.metadata) == [1, 2, 3])
    #expect(Array(found.head) == Array("head \(number)".utf8))
    return withExtendedLifetime(found.owner) { Array(found.body) }
}
