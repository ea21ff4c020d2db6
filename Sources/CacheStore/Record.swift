// Layout of a record in a segment. A header of 64 bytes is followed by key, metadata, head and body without gaps, and by zeros up to a
// multiple of 8. The header's checksum includes the segment's number and the offset, and is keyed with the store's secret. So swapped or
// copied files, and content that a client chose, are never accepted as records. All numbers are little-endian.

import CHash

/// A 128-bit hash of a key, used by the index. Lookups also compare the whole key, so a collision only causes a miss.
struct KeyHash: Hashable, Sendable {
    let low: UInt64
    let high: UInt64

    init(low: UInt64, high: UInt64) {
        self.low = low
        self.high = high
    }

    /// The hash of records that belong to no key.
    static let zero = KeyHash(low: 0, high: 0)

    init(_ key: UnsafeRawBufferPointer, seed: UInt64) {
        let hash = XXH3_128bits_withSeed(key.baseAddress, key.count, seed)
        low = hash.low64
        high = hash.high64
    }
}

enum RecordKind: UInt8 {
    case item = 1
    /// Removes the item that was stored under this key before.
    case removal = 2
    /// Removes all items that were stored before.
    case clearing = 3
    /// Marks the item that was stored under this key before as stale, regardless of its metadata.
    case staleMark = 4
    /// Marks all items that were stored before as stale.
    case staleAll = 5
}

struct RecordHeader {
    static let bytes = 64
    /// Alignment of records in bytes. A scan looks for headers at multiples of it, and the index stores offsets in these units.
    static let alignment = 8
    static let magic: UInt32 = 0x3152_5343  // "CSR1"
    /// Magic number of a record with encoded content. Versions without support for encodings treat the record as damaged instead of
    /// misreading the content.
    static let codedMagic: UInt32 = 0x3252_5343  // "CSR2"
    /// Number of header bytes that the checksum covers. The checksum occupies the rest of the header.
    static let checkedBytes = 56

    var kind: RecordKind
    var retention = Retention.whenUsed
    var isMarkedStale = false
    var keyBytes = 0
    var metadataBytes = 0
    var headBytes = 0
    var bodyBytes = 0
    /// `ContentForm.coding`; 0 for none.
    var coding: UInt8 = 0
    /// `ContentForm.plainBytes` if the content is encoded.
    var plainBytes = 0
    var hash: KeyHash
    /// Checksum of key, metadata, head and body together.
    var payloadChecksum: UInt64 = 0
    /// Note of an item when its record was written (`IndexEntry.note`). Older versions wrote 0.
    var note: UInt32 = 0

    var form: ContentForm { coding == 0 ? .plain(bodyBytes) : ContentForm(coding: coding, plainBytes: plainBytes) }
    var payloadBytes: Int { keyBytes + metadataBytes + headBytes + bodyBytes }
    /// Size of the record, including header and padding.
    var recordBytes: Int { Self.recordBytes(payload: payloadBytes) }

    static func recordBytes(payload: Int) -> Int { (bytes + payload + alignment - 1) & ~(alignment - 1) }

    func write(to target: UnsafeMutableRawPointer, segment: UInt64, offset: Int, seed: UInt64) {
        target.storeBytes(of: (coding == 0 ? Self.magic : Self.codedMagic).littleEndian, toByteOffset: 0, as: UInt32.self)
        target.storeBytes(of: kind.rawValue, toByteOffset: 4, as: UInt8.self)
        target.storeBytes(of: retention.rawValue, toByteOffset: 5, as: UInt8.self)
        target.storeBytes(of: isMarkedStale ? 1 : 0, toByteOffset: 6, as: UInt8.self)
        target.storeBytes(of: coding, toByteOffset: 7, as: UInt8.self)
        target.storeBytes(of: UInt32(keyBytes).littleEndian, toByteOffset: 8, as: UInt32.self)
        target.storeBytes(of: UInt32(metadataBytes).littleEndian, toByteOffset: 12, as: UInt32.self)
        target.storeBytes(of: UInt32(headBytes).littleEndian, toByteOffset: 16, as: UInt32.self)
        target.storeBytes(of: UInt32(bodyBytes).littleEndian, toByteOffset: 20, as: UInt32.self)
        target.storeBytes(of: hash.low.littleEndian, toByteOffset: 24, as: UInt64.self)
        target.storeBytes(of: hash.high.littleEndian, toByteOffset: 32, as: UInt64.self)
        target.storeBytes(of: payloadChecksum.littleEndian, toByteOffset: 40, as: UInt64.self)
        target.storeBytes(of: coding == 0 ? 0 : UInt32(plainBytes).littleEndian, toByteOffset: 48, as: UInt32.self)
        target.storeBytes(of: note.littleEndian, toByteOffset: 52, as: UInt32.self)
        let checksum = Self.checksum(target, segment: segment, offset: offset, seed: seed)
        target.storeBytes(of: checksum.littleEndian, toByteOffset: 56, as: UInt64.self)
    }
}

extension RecordHeader {
    /// Reads a header; nil if there is no valid header at `offset` of this segment, or its record would exceed `limit` bytes.
    init?(at source: UnsafeRawPointer, segment: UInt64, offset: Int, limit: Int, seed: UInt64) {
        guard offset + Self.bytes <= limit, let coding = Self.coding(at: source),
            let kind = RecordKind(rawValue: source.load(fromByteOffset: 4, as: UInt8.self)),
            UInt64(littleEndian: source.load(fromByteOffset: 56, as: UInt64.self))
                == Self.checksum(source, segment: segment, offset: offset, seed: seed)
        else { return nil }
        func count(_ index: Int) -> Int { Int(UInt32(littleEndian: source.load(fromByteOffset: 8 + index * 4, as: UInt32.self))) }
        self.kind = kind
        retention = Retention(rawValue: source.load(fromByteOffset: 5, as: UInt8.self)) ?? .whenUsed
        isMarkedStale = source.load(fromByteOffset: 6, as: UInt8.self) != 0
        (keyBytes, metadataBytes, headBytes, bodyBytes) = (count(0), count(1), count(2), count(3))
        hash = KeyHash(
            low: UInt64(littleEndian: source.load(fromByteOffset: 24, as: UInt64.self)),
            high: UInt64(littleEndian: source.load(fromByteOffset: 32, as: UInt64.self)))
        payloadChecksum = UInt64(littleEndian: source.load(fromByteOffset: 40, as: UInt64.self))
        self.coding = coding
        plainBytes = Int(UInt32(littleEndian: source.load(fromByteOffset: 48, as: UInt32.self)))
        note = UInt32(littleEndian: source.load(fromByteOffset: 52, as: UInt32.self)) & IndexEntry.noteMask
        guard offset + recordBytes <= limit else { return nil }
    }

    /// The encoding of the record's content, 0 for none; nil if no record begins here.
    static func coding(at source: UnsafeRawPointer) -> UInt8? {
        switch UInt32(littleEndian: source.load(as: UInt32.self)) {
        case magic: 0
        case codedMagic: source.load(fromByteOffset: 7, as: UInt8.self)
        default: nil
        }
    }

    private static func checksum(_ header: UnsafeRawPointer, segment: UInt64, offset: Int, seed: UInt64) -> UInt64 {
        let mixed = segment &* 0x9e37_79b9_7f4a_7c15 ^ UInt64(truncatingIfNeeded: offset)
        return XXH3_64bits_withSeed(header, checkedBytes, seed ^ mixed)
    }

    static func payloadChecksum(_ payload: UnsafeRawPointer, _ count: Int, seed: UInt64) -> UInt64 {
        XXH3_64bits_withSeed(payload, count, seed)
    }
}
