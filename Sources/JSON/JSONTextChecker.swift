// Checks whether bytes are a JSON text (RFC 8259) as they arrive, without building a value. A truncated, duplicated or prefixed body
// thereby never replaces a good response. UTF-8 is checked strictly (§8.1), and a byte order mark at the start is ignored, as §8.1 permits.

/// Result for a complete text.
public enum JSONVerdict: Sendable, Equatable {
    /// An object or array: truncation would have been detected.
    case valid
    /// A number, string or literal at the top level. A truncated number is still a number, so framing must prove the end.
    case validScalar
    /// An object or array that exceeds the checked nesting depth.
    case tooDeep
    /// Complete and balanced, but not valid by RFC 8259. Some parsers accept it (`JSONReading`).
    case lenient
    case empty
    /// The beginning of a text that RFC 8259 permits.
    case incomplete
    case invalid
}

/// What is accepted beyond RFC 8259.
public enum JSONReading: Sendable {
    /// Nothing. A byte order mark is ignored.
    case standard
    /// Bytes within strings that are not UTF-8, and a byte order mark: `lenient`.
    case otherBytes
    /// Also NaN, Infinity, and prefixes that prevent execution as a script: `lenient`.
    case extensions
}

public struct JSONTextChecker: Sendable {
    /// Maximum nesting depth of a `valid` text. No API needs more, and parsers of clients recurse.
    public static let depthLimit = 512

    private var state = JSONState.value.rawValue
    private var depth = 0
    /// One bit for each level: whether it is an object.
    private var objects = InlineArray<8, UInt64>(repeating: 0)
    /// The bits of levels beyond the limit.
    private var deepObjects: [UInt64] = []
    private var isScalar = true
    /// Number of matched bytes of a byte order mark; above three after the start of the text.
    private var markAt = 0
    private let reading: JSONReading
    private var isLenient = false
    /// Whether an object or array follows the end of the text, as in a stream of values.
    public private(set) var hasSecondValue = false
    /// The remaining bytes of an extension, and the state after them.
    private var pending: (bytes: ArraySlice<UInt8>, then: JSONState) = ([], .afterValue)

    public init(_ reading: JSONReading = .standard) { self.reading = reading }

    /// - Returns: false as soon as the text cannot become valid.
    public mutating func consume(_ bytes: Span<UInt8>) -> Bool {
        bytes.withUnsafeBufferPointer { buffer in
            let start = markAt < Self.passed ? skipMark(buffer) : 0
            let automaton = JSONAutomaton.shared
            return automaton.classes.withUnsafeBufferPointer { classes in
                automaton.next.withUnsafeBufferPointer { next in run(buffer, from: start, classes, next) }
            }
        }
    }

    public mutating func finish() -> JSONVerdict {
        let verdict = verdict
        return isLenient && (verdict == .valid || verdict == .validScalar) ? .lenient : verdict
    }

    private var verdict: JSONVerdict {
        guard let state = JSONState(rawValue: state), state != .failed else { return .invalid }
        guard depth == 0, pending.bytes.isEmpty else { return .incomplete }
        switch state {
        case .value: return markAt == 1 || markAt == 2 ? .incomplete : .empty
        case .afterValue: return isScalar ? .validScalar : deepObjects.isEmpty ? .valid : .tooDeep
        case .zero, .integer, .fraction, .exponentDigits: return .validScalar
        default: return .incomplete
        }
    }

    public static func check(_ bytes: Span<UInt8>, _ reading: JSONReading = .standard) -> JSONVerdict {
        var checker = JSONTextChecker(reading)
        return checker.consume(bytes) ? checker.finish() : .invalid
    }

    private static let passed = 4

    /// Skips a byte order mark (EF BB BF) at the start.
    private mutating func skipMark(_ buffer: UnsafeBufferPointer<UInt8>) -> Int {
        var index = 0
        while index < buffer.count {
            let expected: UInt8 = markAt == 0 ? 0xef : markAt == 1 ? 0xbb : 0xbf
            guard markAt < 3, buffer[index] == expected else {
                if markAt == 1 || markAt == 2 { state = JSONState.failed.rawValue }
                markAt = Self.passed
                return index
            }
            markAt += 1
            index += 1
            if markAt == 3, reading != .standard { isLenient = true }
        }
        return index
    }

    private mutating func run(
        _ buffer: UnsafeBufferPointer<UInt8>, from start: Int, _ classes: UnsafeBufferPointer<UInt8>, _ next: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard var index = readPending(buffer, from: start) else { return false }
        var state = self.state
        let end = buffer.count
        defer { self.state = state }
        while index < end {
            if state >= JSONState.firstText {
                index = JSONScanning.plainEnd(buffer, from: index)
                guard index < end else { break }
            }
            let byte = buffer[index]
            let former = state
            state = next[Int(state) << JSONAutomaton.shift | Int(classes[Int(byte)])]
            index += 1
            if state >= JSONState.firstAction {
                state = act(state)
                guard state == JSONState.failed.rawValue else { continue }
                if former == JSONState.afterValue.rawValue, depth == 0, byte == 0x7b || byte == 0x5b { hasSecondValue = true }
                guard let known = recover(from: former, byte), let position = readPending(buffer, from: known.isRead ? index : index - 1)
                else { return false }
                (state, index) = (known.state, position)
            } else if byte == 0x0a {
                index = JSONScanning.spacesEnd(buffer, from: index)
            }
        }
        return state != JSONState.failed.rawValue
    }

    /// Handles a byte that RFC 8259 does not permit.
    /// - Parameter former: the state in which the byte is invalid.
    /// - Returns: the next state, and whether it consumes the byte; nil if the text is invalid under this reading.
    private mutating func recover(from former: UInt8, _ byte: UInt8) -> (state: UInt8, isRead: Bool)? {
        guard reading != .standard, let former = JSONState(rawValue: former) else { return nil }
        switch former {
        case .text where byte >= 0x80, .nameText where byte >= 0x80: return lenient(former, isRead: true)
        case .textUTF8x1, .textUTF8x2, .textUTF8x3, .textE0, .textED, .textF0, .textF4: return lenient(.text, isRead: false)
        case .nameUTF8x1, .nameUTF8x2, .nameUTF8x3, .nameE0, .nameED, .nameF0, .nameF4: return lenient(.nameText, isRead: false)
        default: return reading == .extensions ? extend(former, byte) : nil
        }
    }

    private mutating func lenient(_ state: JSONState, isRead: Bool) -> (state: UInt8, isRead: Bool) {
        isLenient = true
        return (state.rawValue, isRead)
    }

    private mutating func extend(_ former: JSONState, _ byte: UInt8) -> (state: UInt8, isRead: Bool)? {
        let rest: String
        var then = JSONState.afterValue
        switch (former, byte) {
        case (.value, UInt8(ascii: "N")), (.firstElement, UInt8(ascii: "N")): rest = "aN"
        case (.value, UInt8(ascii: "I")), (.firstElement, UInt8(ascii: "I")), (.minus, UInt8(ascii: "I")): rest = "nfinity"
        // At depth 0, no value is open before the text.
        case (.value, UInt8(ascii: ")")) where depth == 0: (rest, then) = ("]}'", .value)
        case (.value, UInt8(ascii: "w")) where depth == 0: (rest, then) = ("hile(1);", .value)
        case (.f, UInt8(ascii: "o")) where depth == 0: (rest, then) = ("r(;;);", .value)
        case (.value, UInt8(ascii: ",")) where depth == 0 && isLenient: return (JSONState.value.rawValue, true)
        default: return nil
        }
        pending = (Array(rest.utf8)[...], then)
        return lenient(then, isRead: true)
    }

    /// Reads the remaining bytes of an extension.
    /// - Returns: the index after them; nil if other bytes follow.
    private mutating func readPending(_ buffer: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        var index = start
        while index < buffer.count, let byte = pending.bytes.first {
            guard buffer[index] == byte else {
                state = JSONState.failed.rawValue
                return nil
            }
            pending.bytes.removeFirst()
            index += 1
            if pending.bytes.isEmpty { state = pending.then.rawValue }
        }
        return index
    }

    /// Opens or closes containers. Returns the next state.
    private mutating func act(_ action: UInt8) -> UInt8 {
        switch action {
        case JSONState.openObject.rawValue: open(object: true)
        case JSONState.openArray.rawValue: open(object: false)
        case JSONState.closeObject.rawValue: close(object: true)
        case JSONState.closeArray.rawValue: close(object: false)
        case JSONState.comma.rawValue where depth > 0: isInObject ? JSONState.name.rawValue : JSONState.value.rawValue
        default: JSONState.failed.rawValue
        }
    }

    private var isInObject: Bool {
        let level = depth - 1
        let bits = level < Self.depthLimit ? objects[level >> 6] : deepObjects[(level - Self.depthLimit) >> 6]
        return bits & (1 << UInt64(level & 63)) != 0
    }

    private mutating func open(object: Bool) -> UInt8 {
        isScalar = false
        let bit: UInt64 = 1 << UInt64(depth & 63)
        if depth >= Self.depthLimit {
            openDeep(bit, object: object)
        } else if object {
            objects[depth >> 6] |= bit
        } else {
            objects[depth >> 6] &= ~bit
        }
        depth += 1
        return object ? JSONState.firstName.rawValue : JSONState.firstElement.rawValue
    }

    /// Uses one bit for each level, so the memory is a small fraction of the text.
    private mutating func openDeep(_ bit: UInt64, object: Bool) {
        let position = (depth - Self.depthLimit) >> 6
        if position == deepObjects.count { deepObjects.append(0) }
        if object { deepObjects[position] |= bit } else { deepObjects[position] &= ~bit }
    }

    private mutating func close(object: Bool) -> UInt8 {
        guard depth > 0, isInObject == object else { return JSONState.failed.rawValue }
        depth -= 1
        return JSONState.afterValue.rawValue
    }
}

/// Skips bytes without structural meaning. Text is scanned sixteen bytes at a time, which takes two fifths of the time of eight.
enum JSONScanning {
    static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 }

    private static let ones: UInt64 = 0x0101_0101_0101_0101

    /// Returns the index of the first byte from `start` on that is not plain string text: a quote, an escape, a control or non-ASCII.
    static func plainEnd(_ buffer: UnsafeBufferPointer<UInt8>, from start: Int) -> Int { end(buffer, from: start, stopsAtOther: true) }

    /// Returns the index of the first quote or escape from `start` on.
    static func quoteOrEscape(_ buffer: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        end(buffer, from: start, stopsAtOther: false)
    }

    @inline(__always)
    private static func end(_ buffer: UnsafeBufferPointer<UInt8>, from start: Int, stopsAtOther: Bool) -> Int {
        guard let base = UnsafeRawPointer(buffer.baseAddress) else { return start }
        let (quote, backslash) = (SIMD16<UInt8>(repeating: 0x22), SIMD16<UInt8>(repeating: 0x5c))
        let firstPlain = SIMD16<Int8>(repeating: 0x20)
        var index = start
        while index + 16 <= buffer.count {
            let bytes = base.loadUnaligned(fromByteOffset: index, as: SIMD16<UInt8>.self)
            // As signed numbers, controls and non-ASCII bytes are both below 0x20.
            let isOther = unsafeBitCast(bytes, to: SIMD16<Int8>.self) .< firstPlain
            let isEnd = (bytes .== quote) .| (bytes .== backslash)
            let found = stopsAtOther ? isEnd .| isOther : isEnd
            // All bits of a lane are set, or none.
            let special = unsafeBitCast(found, to: (UInt64, UInt64).self)
            if special.0 != 0 { return index + special.0.trailingZeroBitCount >> 3 }
            if special.1 != 0 { return index + 8 + special.1.trailingZeroBitCount >> 3 }
            index += 16
        }
        while index < buffer.count {
            let byte = buffer[index]
            if byte == 0x22 || byte == 0x5c || stopsAtOther && (byte < 0x20 || byte >= 0x80) { return index }
            index += 1
        }
        return index
    }

    /// Skips the indentation at the beginning of a line.
    static func spacesEnd(_ buffer: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        guard let base = UnsafeRawPointer(buffer.baseAddress) else { return start }
        var index = start
        while index + 8 <= buffer.count {
            let other = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index, as: UInt64.self)) ^ (ones &* 0x20)
            if other != 0 { return index + other.trailingZeroBitCount >> 3 }
            index += 8
        }
        while index < buffer.count, buffer[index] == 0x20 { index += 1 }
        return index
    }
}
