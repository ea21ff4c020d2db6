// A record of the shared level, as it lies in the engine: a layout, then one sealed value. Little-endian, each part with its length before it. In layout 2
// the value was compressed by zstd before it was sealed; a version that knows layout 1 only takes such a record for none.
//
//     what log and how far it had come | when the response came | coding and length without it | key | metadata | head | content

import CachePolicy
import CacheStore
import ContentCodings
import Fleet
import ResponseCache

/// What a node gives, and what else others have to know of it.
struct GivenRecord {
    var record: SharedRecord
    /// How far the log had been followed when its request went upstream.
    var version: RecordVersion
    /// When the response came, milliseconds of the fleet's time.
    var fleetTime: Int64

    private static let plain: [UInt8] = [1]
    private static let compressed: [UInt8] = [2]
    /// Shorter records are hardly shorter compressed; longer ones would hold the loop, bytes.
    private static let worthCompressing = 512...1 << 20

    private var plainBytes: Int {
        let parts = record.key.count + record.metadata.count + record.head.count + record.body.count
        return RecordVersion.byteCount + 8 + 1 + 8 + 4 * 8 + parts
    }

    /// As it will be sealed.
    enum Packed {
        case plain(GivenRecord)
        case compressed([UInt8])

        /// How long it is, sealed.
        var sealedBytes: Int {
            switch self {
            case .plain(let record): GivenRecord.plain.count + FleetSecret.sealBytes + record.plainBytes
            case .compressed(let bytes): GivenRecord.compressed.count + FleetSecret.sealBytes + bytes.count
            }
        }

        /// - Parameter place: the engine's key of it.
        func appendSealed(to bytes: inout [UInt8], by sealer: inout FleetSealer, at place: ArraySlice<UInt8>) {
            switch self {
            case .plain(let record):
                bytes += GivenRecord.plain
                sealer.appendSealed(to: &bytes, at: place) { record.append(to: &$0) }
            case .compressed(let packed):
                bytes += GivenRecord.compressed
                sealer.appendSealed(to: &bytes, at: place + GivenRecord.compressed) { $0 += packed }
            }
        }
    }

    /// Content that is stored in a coding is compressed already.
    func packed(by zstd: QuickZstd) -> Packed {
        guard record.body.form.coding == 0, Self.worthCompressing.contains(plainBytes) else { return .plain(self) }
        var plain: [UInt8] = []
        plain.reserveCapacity(plainBytes)
        append(to: &plain)
        return zstd.compress(plain).map { .compressed($0) } ?? .plain(self)
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

    init(_ record: SharedRecord, _ version: RecordVersion, fleetTime: Int64) {
        (self.record, self.version, self.fleetTime) = (record, version, fleetTime)
    }

    private static func open(
        _ value: [UInt8], sealedBy secret: FleetSecret, at place: ArraySlice<UInt8>, by zstd: QuickZstd, limit: Int
    ) -> [UInt8]? {
        guard value.starts(with: compressed) else { return secret.open(value, at: place, behind: plain) }
        return secret.open(value, at: place + compressed, behind: compressed).flatMap { zstd.decompress($0, limit: limit) }
    }

    /// - Parameter limit: of the record without seal and compression, bytes.
    /// - Returns: nil where it is of another layout, was not sealed by this secret for this place, is cut, or too long.
    init?(_ value: [UInt8], sealedBy secret: FleetSecret, at place: ArraySlice<UInt8>, by zstd: QuickZstd, limit: Int) {
        guard let plain = Self.open(value, sealedBy: secret, at: place, by: zstd, limit: limit) else { return nil }
        var rest = plain[...]
        guard let version = rest.take(24).flatMap({ RecordVersion(bytes: $0) }), let time = rest.takeNumber(), let coding = rest.popFirst(),
            let plainBytes = rest.takeNumber().flatMap({ Int(exactly: $0) }), let key = rest.takePart(), let metadata = rest.takePart(),
            let head = rest.takePart(), let body = rest.takePart(), rest.isEmpty, coding != 0 || plainBytes == body.count
        else { return nil }
        let content = coding == 0 ? ItemBody.bytes(body) : .coded(body, ContentForm(coding: coding, plainBytes: plainBytes))
        self.init(SharedRecord(key: key, metadata: metadata, head: head, body: content), version, fleetTime: Int64(bitPattern: time))
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
    fileprivate mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
        guard count >= 0, count <= self.count else { return nil }
        defer { self = dropFirst(count) }
        return prefix(count)
    }

    fileprivate mutating func takeNumber() -> UInt64? { take(8).map { $0.reversed().reduce(0) { $0 << 8 | UInt64($1) } } }

    fileprivate mutating func takePart() -> [UInt8]? { takeNumber().flatMap { Int(exactly: $0) }.flatMap { take($0) }.map { Array($0) } }
}
