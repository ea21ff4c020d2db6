// A record in the engine: a layout, then one sealed value. Little-endian, each part preceded by its length. Layout 2 is compressed by zstd
// before sealing; a version that knows layout 1 only ignores such a record.
//
//     epoch and position | response time | coding and plain length | key | metadata | head | content

import CachePolicy
import CacheStore
import ContentCodings
import Fleet
import ResponseCache

struct VersionedRecord {
    var record: FleetRecord
    /// Position in the log when the request was sent.
    var version: RecordVersion
    /// Time of the response, in milliseconds of the fleet's time.
    var fleetTime: Int64

    private static let plain: [UInt8] = [1]
    private static let compressed: [UInt8] = [2]
    /// Lengths in bytes that are compressed: shorter records shrink little, and longer ones would block the loop.
    private static let worthCompressing = 512...1 << 20

    private var plainBytes: Int {
        let parts = record.key.count + record.metadata.count + record.head.count + record.body.count
        return RecordVersion.byteCount + 8 + 1 + 8 + 4 * 8 + parts
    }

    struct Packed {
        fileprivate let record: VersionedRecord
        /// Compressed record; nil if the record is sealed uncompressed.
        fileprivate let compressed: [UInt8]?

        var sealedBytes: Int { VersionedRecord.plain.count + FleetSecret.sealBytes + (compressed?.count ?? record.plainBytes) }

        func appendSealed(to bytes: inout [UInt8], by sealer: inout FleetSealer, at context: ArraySlice<UInt8>) {
            bytes += compressed == nil ? VersionedRecord.plain : VersionedRecord.compressed
            guard let compressed else { return sealer.appendSealed(to: &bytes, at: context) { record.append(to: &$0) } }
            sealer.appendSealed(to: &bytes, at: context + VersionedRecord.compressed) { $0 += compressed }
        }
    }

    /// Compresses the record, unless its content already has a content coding.
    func packed(by zstd: QuickZstd) -> Packed {
        guard record.body.form.coding == 0, Self.worthCompressing.contains(plainBytes) else { return Packed(record: self, compressed: nil) }
        var plain: [UInt8] = []
        plain.reserveCapacity(plainBytes)
        append(to: &plain)
        return Packed(record: self, compressed: zstd.compress(plain))
    }

    private func append(to plain: inout [UInt8]) {
        version.append(to: &plain)
        plain.append(number: UInt64(bitPattern: fleetTime))
        let form = record.body.form
        plain.append(form.coding)
        plain.append(number: UInt64(form.plainBytes))
        plain.append(part: record.key)
        plain.append(part: record.metadata)
        plain.append(part: record.head)
        plain.append(number: UInt64(record.body.count))
        record.body.withBytes { plain.append(contentsOf: $0) }
    }

    init(_ record: FleetRecord, _ version: RecordVersion, fleetTime: Int64) {
        (self.record, self.version, self.fleetTime) = (record, version, fleetTime)
    }

    private static func open(
        _ value: [UInt8], sealedBy secret: FleetSecret, at context: ArraySlice<UInt8>, by zstd: QuickZstd, limit: Int
    ) -> [UInt8]? {
        guard value.starts(with: compressed) else { return secret.open(value, at: context, behind: plain) }
        return secret.open(value, at: context + compressed, behind: compressed).flatMap { zstd.decompress($0, limit: limit) }
    }

    /// - Parameter limit: maximum size of the record without seal and compression, in bytes.
    /// - Returns: nil if the layout, the secret or the key in the engine differs, or the record is altered, truncated or too long.
    init?(_ value: [UInt8], sealedBy secret: FleetSecret, at context: ArraySlice<UInt8>, by zstd: QuickZstd, limit: Int) {
        guard let plain = Self.open(value, sealedBy: secret, at: context, by: zstd, limit: limit) else { return nil }
        var rest = plain[...]
        guard let version = rest.take(24).flatMap({ RecordVersion(bytes: $0) }), let time = rest.takeLittleEndianNumber(),
            let coding = rest.popFirst(),
            let plainBytes = rest.takeLittleEndianNumber().flatMap({ Int(exactly: $0) }), let key = rest.takePart(),
            let metadata = rest.takePart(),
            let head = rest.takePart(), let body = rest.takePart(), rest.isEmpty, coding != 0 || plainBytes == body.count
        else { return nil }
        let content = coding == 0 ? ItemBody.bytes(body) : .coded(body, ContentForm(coding: coding, plainBytes: plainBytes))
        self.init(FleetRecord(key: key, metadata: metadata, head: head, body: content), version, fleetTime: Int64(bitPattern: time))
    }
}

extension [UInt8] {
    fileprivate mutating func append(number: UInt64) { Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) } }

    fileprivate mutating func append(part: [UInt8]) {
        append(number: UInt64(part.count))
        self += part
    }
}

extension ArraySlice<UInt8> {
    fileprivate mutating func takePart() -> [UInt8]? { takeLittleEndianNumber().flatMap { take(Int(clamping: $0)) }.map { Array($0) } }
}
