// A field section as it was decoded (RFC 9113 §8.1): names and values in order, in one array of bytes, each line behind its lengths, so that no two
// sections are alike in their bytes that are not alike. What is beyond the limits is counted and
// not kept, since the decoder has to go on to the section's end: its table belongs to all streams.

/// How long a field section may be.
public struct HTTP2FieldLimits: Sendable {
    /// As RFC 9113 §6.5.2 counts: names, values, and 32 for each line.
    public var bytes: Int
    public var count: Int
    /// Whoever sends so many times more is no client, and its connection ends.
    public static let abuseFactor = 4

    public init(bytes: Int, count: Int) {
        self.bytes = bytes
        self.count = count
    }
}

public struct HTTP2FieldSection: Sendable {
    public struct Entry: Sendable {
        public let nameStart: UInt32
        public let nameLength: UInt32
        public let valueLength: UInt32

        public var nameRange: Range<Int> { Int(nameStart)..<Int(nameStart + nameLength) }
        public var valueRange: Range<Int> { Int(nameStart + nameLength)..<Int(nameStart + nameLength + valueLength) }
    }

    public private(set) var bytes: [UInt8] = []
    public private(set) var entries: [Entry] = []
    /// Of all lines, also of those that are not kept.
    public private(set) var decodedBytes = 0
    public private(set) var decodedCount = 0
    /// Some lines are not kept.
    public private(set) var isTooLarge = false

    public init() {}

    public enum Taking: Equatable, Sendable { case taken, tooLarge, abuse }

    static let lineBytes = 32
    /// Of the two lengths before each line.
    private static let lengthBytes = 8

    public mutating func take(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, _ limits: HTTP2FieldLimits)
        -> Taking
    {
        decodedBytes += name.count + value.count + Self.lineBytes
        decodedCount += 1
        guard decodedBytes <= limits.bytes, decodedCount <= limits.count else {
            isTooLarge = true
            let factor = HTTP2FieldLimits.abuseFactor
            return decodedBytes / factor > limits.bytes || decodedCount / factor > limits.count ? .abuse : .tooLarge
        }
        let (nameLength, valueLength) = (UInt32(name.count), UInt32(value.count))
        let start = bytes.count + Self.lengthBytes
        bytes.append(addingCapacity: Self.lengthBytes + name.count + value.count) { output in
            output.withUnsafeMutableBufferPointer { space, written in
                let line = UnsafeMutableRawBufferPointer(space)
                line.storeBytes(of: nameLength, as: UInt32.self)
                line.storeBytes(of: valueLength, toByteOffset: 4, as: UInt32.self)
                UnsafeMutableRawBufferPointer(rebasing: line[Self.lengthBytes...]).copyMemory(from: UnsafeRawBufferPointer(name))
                UnsafeMutableRawBufferPointer(rebasing: line[(Self.lengthBytes + name.count)...])
                    .copyMemory(from: UnsafeRawBufferPointer(value))
                written = Self.lengthBytes + name.count + value.count
            }
        }
        entries.append(Entry(nameStart: UInt32(start), nameLength: nameLength, valueLength: valueLength))
        return .taken
    }

    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
        (decodedBytes, decodedCount, isTooLarge) = (0, 0, false)
    }

    /// For tests and messages: the value of the first line of that name.
    public func first(_ name: String) -> String? {
        for entry in entries where bytes[entry.nameRange].elementsEqual(name.utf8) {
            return String(decoding: bytes[entry.valueRange], as: UTF8.self)
        }
        return nil
    }
}
