// A decoded field section (RFC 9113 §8.1): names and values in order, in one buffer. Each line follows its lengths, so different sections
// always have different bytes. Lines beyond the limits are counted and not kept. Decoding continues to the end of the section, because all
// streams share the compression table.

/// Limits of a field section.
public struct HTTP2FieldLimits: Sendable {
    /// Maximum bytes as defined in RFC 9113 §6.5.2: names, values, and 32 for each line.
    public var bytes: Int
    public var count: Int
    /// Factor by which a section may exceed the limits before the connection is ended.
    public static let abuseFactor = 4

    public init(bytes: Int, count: Int) {
        self.bytes = bytes
        self.count = count
    }
}

/// Uses manually managed memory, which is reused: bounds checks of an array took as long as decoding.
public struct HTTP2FieldSection: ~Copyable {
    public struct Entry: Sendable, BitwiseCopyable {
        public let nameStart: UInt32
        public let nameLength: UInt32
        public let valueLength: UInt32

        public var nameRange: Range<Int> { Int(nameStart)..<Int(nameStart + nameLength) }
        public var valueRange: Range<Int> { Int(nameStart + nameLength)..<Int(nameStart + nameLength + valueLength) }
    }

    private var space = UnsafeMutableBufferPointer<UInt8>(start: nil, count: 0)
    private var filled = 0
    private var lines = UnsafeMutableBufferPointer<Entry>(start: nil, count: 0)
    private var lineCount = 0
    /// Both properties are valid until the section is changed.
    public var bytes: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(rebasing: space[..<filled]) }
    public var entries: UnsafeBufferPointer<Entry> { UnsafeBufferPointer(rebasing: lines[..<lineCount]) }
    /// Size of all lines, including those that are not kept.
    public private(set) var decodedBytes = 0
    public private(set) var decodedCount = 0
    /// Whether some lines were not kept.
    public private(set) var isTooLarge = false

    public init() {}

    deinit {
        space.deallocate()
        lines.deallocate()
    }

    public enum Taking: Equatable, Sendable { case taken, tooLarge, abuse }

    static let lineBytes = 32
    /// Size of the two lengths before each line.
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
        let count = Self.lengthBytes + name.count + value.count
        if filled + count > space.count { Self.grow(&space, filled, to: filled + count) }
        if lineCount == lines.count { Self.grow(&lines, lineCount, to: lineCount + 1) }
        let (nameLength, valueLength) = (UInt32(name.count), UInt32(value.count))
        // The space was reserved above. Checking it for each part would double the time.
        if var target = space.baseAddress.map({ UnsafeMutableRawPointer($0 + filled) }) {
            target.storeBytes(of: nameLength, as: UInt32.self)
            target.storeBytes(of: valueLength, toByteOffset: 4, as: UInt32.self)
            target += Self.lengthBytes
            if let name = name.baseAddress { target.copyMemory(from: name, byteCount: Int(nameLength)) }
            if let value = value.baseAddress { (target + Int(nameLength)).copyMemory(from: value, byteCount: Int(valueLength)) }
        }
        lines.initializeElement(
            at: lineCount,
            to: Entry(nameStart: UInt32(filled + Self.lengthBytes), nameLength: nameLength, valueLength: valueLength))
        filled += count
        lineCount += 1
        return .taken
    }

    private static let minimumSpace = 32

    private static func grow<Value: BitwiseCopyable>(_ space: inout UnsafeMutableBufferPointer<Value>, _ filled: Int, to count: Int) {
        let larger = UnsafeMutableBufferPointer<Value>.allocate(capacity: max(minimumSpace, 2 * count))
        _ = larger.update(fromContentsOf: space[..<filled])
        space.deallocate()
        space = larger
    }

    public mutating func removeAll() {
        (filled, lineCount) = (0, 0)
        (decodedBytes, decodedCount, isTooLarge) = (0, 0, false)
    }

    /// For tests and messages: the value of the first line with this name.
    public func first(_ name: String) -> String? {
        for entry in entries where bytes[entry.nameRange].elementsEqual(name.utf8) {
            return String(decoding: bytes[entry.valueRange], as: UTF8.self)
        }
        return nil
    }
}
