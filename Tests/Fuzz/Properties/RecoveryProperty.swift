// A store opens any directory content, even with valid checksums by an attacker with the key. Every recovered item is intact, and newly
// stored items survive a restart.

import CHash
import CSystem
import CachePolicy
import Glibc

@testable import CacheStore

enum RecoveryProperty {
    private static let secret = [UInt8](repeating: 0x5a, count: StoreDirectory.keyBytes)
    private static let seed = XXH3_64bits(secret, secret.count)
    /// The smallest permitted store. Segments are small, so that they are made quickly.
    private static let (capacity, segmentBytes) = (4 << 20, 1 << 16)

    /// The first byte selects how the rest is used: raw bytes of a segment, records, or records and a snapshot.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        // Uses a directory in memory if possible: synchronizing with a disk takes a hundred times as long.
        guard let kind = bytes.first,
            let directory = TemporaryDirectory("cistern-fuzz", in: "/dev/shm") ?? TemporaryDirectory("cistern-fuzz")
        else { return }
        save(secret, directory.path + "/key")
        var input = Input(bytes: bytes.dropFirst())
        switch kind & 3 {
        case 0: save(Array(bytes.dropFirst()), Segment.path(1, directory.path))
        case 1: save(records(&input), Segment.path(UInt64(kind >> 2), directory.path))
        default:
            let segment = records(&input)
            save(segment, Segment.path(1, directory.path))
            save(snapshot(&input, segment), directory.path + "/index")
        }
        try checkStore(directory.path)
    }

    private static func checkStore(_ path: String) throws(Violation) {
        let (key, content) = (Array("a key of our own".utf8), [UInt8](repeating: 0x61, count: 300))
        var kept = 0
        for round in 0..<2 {
            guard let store = try? ResponseStore(StoreSettings(directory: path, capacityBytes: capacity, segmentBytes: segmentBytes)) else {
                throw Violation(description: "the store does not open")
            }
            defer { if round == 0 { store.close() } }
            if round == 1 { try expect(stored(store, key) == content, "a stored item is not found after a restart") }
            visit(store)
            guard store.statistics.isWritable else { continue }
            let item = NewItem(key: key, metadata: [1], head: [2], body: content, retention: .mayRescue)
            try expect(store.insert(item) == .accepted, "a new item is not accepted")
            store.flush()
            try expect(stored(store, key) == content, "a stored item is not found")
            kept = store.statistics.entries
        }
        try expect(kept > 0, "no item is stored")
    }

    private static func stored(_ store: ResponseStore, _ key: [UInt8]) -> [UInt8]? {
        store.lookUp(key.span).map { found in withExtendedLifetime(found.owner) { Array(found.body) } }
    }

    /// Reads the items as lists and look-ups do.
    private static func visit(_ store: ResponseStore) {
        store.visitAll { listed in
            let key = Array(listed.key)
            _ = (StoredMetadata(listed.item.metadata.span), StoredHead.parse(listed.item.head.span), StoredKey(key)?.readableTarget)
            _ = (store.lookUp(key.span)?.body.count, store.item(listed.id)?.item.head.count)
        }
    }

    // MARK: Directory content

    /// Reads numbers from the bytes; zeros after their end.
    private struct Input {
        var bytes: ArraySlice<UInt8>

        mutating func byte() -> UInt8 { bytes.popFirst() ?? 0 }
        mutating func number() -> UInt64 { (0..<8).reduce(0) { value, _ in value << 8 | UInt64(byte()) } }
        /// Usually small, sometimes any 32-bit number.
        mutating func size() -> Int {
            let first = byte()
            return first == 0xff ? Int(UInt32(truncatingIfNeeded: number())) : Int(first)
        }
    }

    /// Records with valid headers and arbitrary values.
    private static func records(_ input: inout Input) -> [UInt8] {
        var segment = [UInt8](repeating: 0, count: segmentBytes)
        var offset = 0
        for _ in 0..<(input.byte() & 15) where offset + 4096 <= segmentBytes {
            let kind = RecordKind(rawValue: input.byte() % 6) ?? .item
            let retention = Retention(rawValue: input.byte() & 3) ?? .whenUsed
            let sizes = (input.size(), input.size(), input.size(), input.size())
            let isWhole = input.byte() & 1 == 0
            let start = offset + RecordHeader.bytes
            let length = min(sizes.0 + sizes.1 + sizes.2 + sizes.3, segmentBytes - start)
            for index in 0..<min(length, 2048) { segment[start + index] = input.byte() }
            segment.withUnsafeMutableBytes { bytes in
                let payload = UnsafeRawBufferPointer(rebasing: bytes[start..<start + length])
                let key = UnsafeRawBufferPointer(rebasing: payload.prefix(sizes.0))
                let header = RecordHeader(
                    kind: kind, retention: retention, keyBytes: sizes.0, metadataBytes: sizes.1, headBytes: sizes.2, bodyBytes: sizes.3,
                    hash: sizes.0 == 0 ? .zero : KeyHash(key, seed: seed),
                    payloadChecksum: isWhole ? RecordHeader.payloadChecksum(payload.baseAddress!, length, seed: seed) : 0)
                header.write(to: bytes.baseAddress! + offset, segment: 1, offset: offset, seed: seed)
                offset += min(header.recordBytes, segmentBytes)
            }
        }
        return segment
    }

    /// A snapshot with a valid checksum. Each number is correct or, sometimes, arbitrary.
    private static func snapshot(_ input: inout Input, _ segment: [UInt8]) -> [UInt8] {
        let count = Int(input.byte() & 7)
        var numbers: [UInt64] = [0, 0x3150_414e_5343_4943, UInt64(count), 1, UInt64(segmentBytes), 1 << 40 | UInt64(segment.count)]
        for _ in 0..<count { numbers += [input.number(), input.number(), 1, UInt64(input.byte())] }
        for _ in 0..<(input.byte() & 7) {
            let place = Int(input.byte()) % numbers.count
            numbers[place] = input.number()
        }
        var bytes = numbers.withUnsafeBytes { Array($0) }
        if input.byte() & 1 == 1 { bytes += [UInt8](repeating: 0, count: Int(input.byte() & 31)) }
        bytes.withUnsafeMutableBytes { bytes in
            let checksum = RecordHeader.payloadChecksum(bytes.baseAddress! + 8, bytes.count - 8, seed: seed)
            bytes.storeBytes(of: checksum.littleEndian, as: UInt64.self)
        }
        return bytes
    }

    private static func save(_ bytes: [UInt8], _ path: String) {
        let descriptor = csystem_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        defer { close(descriptor) }
        _ = write(descriptor, bytes, bytes.count)
    }
}
