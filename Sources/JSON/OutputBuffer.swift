/// Memory that grows as elements are appended. For short pieces of text, appending to an array takes several times as long.
struct OutputBuffer<Element: BitwiseCopyable>: ~Copyable {
    private var base: UnsafeMutablePointer<Element>
    private var capacity: Int
    private(set) var count = 0

    init(capacity: Int) { (base, self.capacity) = (.allocate(capacity: capacity), capacity) }

    deinit { base.deallocate() }

    var last: Element? { count == 0 ? nil : base[count - 1] }

    subscript(index: Int) -> Element {
        get {
            precondition(index >= 0 && index < count)
            return base[index]
        }
        set {
            precondition(index >= 0 && index < count)
            base[index] = newValue
        }
    }

    func array(from start: Int) -> [Element] { Array(UnsafeBufferPointer(start: base, count: count)[start...]) }

    @inline(__always)
    mutating func append(_ element: Element) {
        if count == capacity { grow(by: 1) }
        base[count] = element
        count += 1
    }

    mutating func removeLast(_ removed: Int) {
        precondition(removed >= 0 && removed <= count)
        count -= removed
    }

    @inline(never)
    private mutating func grow(by added: Int) {
        let former = base
        capacity = max(2 * capacity, count + added)
        base = .allocate(capacity: capacity)
        base.update(from: former, count: count)
        former.deallocate()
    }
}

extension OutputBuffer where Element == UInt8 {
    /// Unused bytes that let short text be copied without a call.
    static let slack = 16

    func withBytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result { body(UnsafeBufferPointer(start: base, count: count).span) }

    mutating func append(littleEndian number: UInt64) {
        if capacity - count < 8 { grow(by: 8) }
        UnsafeMutableRawPointer(base + count).storeBytes(of: number.littleEndian, as: UInt64.self)
        count += 8
    }

    /// Compares two ranges byte by byte. Returns a value less than, equal to or greater than 0.
    func order(_ one: Range<Int>, _ other: Range<Int>) -> Int {
        precondition(one.lowerBound >= 0 && one.upperBound <= count && other.lowerBound >= 0 && other.upperBound <= count)
        let shorter = min(one.count, other.count)
        var index = 0
        while index < shorter {
            let (left, right) = (base[one.lowerBound + index], base[other.lowerBound + index])
            if left != right { return left < right ? -1 : 1 }
            index += 1
        }
        return one.count - other.count
    }

    /// Returns the bytes after the first one of a range as a big-endian number: up to eight, followed by zeros.
    func prefix(_ range: Range<Int>) -> UInt64 {
        precondition(range.lowerBound >= 0 && range.lowerBound < range.upperBound && range.upperBound <= count)
        let (start, length) = (range.lowerBound + 1, min(8, range.count - 1))
        let unused = UInt64(8 * (8 - length))
        if capacity - start >= 8 {
            return UInt64(bigEndian: UnsafeRawPointer(base + start).loadUnaligned(as: UInt64.self)) & (~0 << unused)
        }
        var number: UInt64 = 0
        for index in start..<start + length { number = number << 8 | UInt64(base[index]) }
        return number << unused
    }

    /// Moves the bytes from `start` on to another buffer, and replaces its bytes.
    mutating func move(from start: Int, to other: inout Self) {
        other.removeLast(other.count)
        other.append(UnsafeBufferPointer(start: base, count: count), start..<count)
        removeLast(count - start)
    }

    mutating func append(_ other: borrowing Self, _ range: Range<Int>) {
        append(UnsafeBufferPointer(start: other.base, count: other.count), range)
    }

    /// Appends a part of a text.
    @inline(__always)
    mutating func append(_ text: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) {
        guard let source = text.baseAddress, !range.isEmpty else { return }
        precondition(range.lowerBound >= 0 && range.upperBound <= text.count)
        if capacity - count < range.count { grow(by: range.count + Self.slack) }
        if range.count <= Self.slack, capacity - count >= Self.slack, text.count - range.lowerBound >= Self.slack {
            let bytes = UnsafeRawPointer(source + range.lowerBound).loadUnaligned(as: SIMD16<UInt8>.self)
            UnsafeMutableRawPointer(base + count).storeBytes(of: bytes, as: SIMD16<UInt8>.self)
        } else {
            (base + count).update(from: source + range.lowerBound, count: range.count)
        }
        count += range.count
    }
}
