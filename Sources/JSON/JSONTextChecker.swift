// Tells whether bytes are a JSON text (RFC 8259), as they arrive and without building anything: so that a cut, doubled or prefixed body
// never takes the place of a good one. UTF-8 is checked strictly (§8.1). A byte order mark at the start is ignored, as §8.1 allows.

import HTTPCore

/// What a finished text was.
package enum JSONVerdict: Sendable, Equatable {
    /// An object or array: its end cannot have been cut off unnoticed.
    case valid
    /// A number, string or literal at the top. A number that was cut is still a number, so framing must prove its end.
    case validScalar
    case empty
    case invalid
}

package struct JSONTextChecker: Sendable {
    private enum State: UInt8, Sendable {
        /// Before a value; after `[` (where `]` may come too); after `{`; before a name; before `:`; after a value.
        case value, firstElement, firstName, name, colon, afterValue
        case string, escape, hex, utf8
        case minus, zero, integer, point, fraction, exponent, exponentSign, exponentDigits
        case literal, failed
    }

    /// Nesting beyond this is refused: no API needs it, and clients' parsers recurse.
    package static let depthLimit = 512

    private var state = State.value
    private var depth = 0
    /// One bit a level: whether it is an object.
    private var objects = [UInt64](repeating: 0, count: JSONTextChecker.depthLimit / 64)
    private var isName = false
    private var isScalar = true
    private var seenAny = false
    private var literal: StaticString = "true"
    private var literalAt = 0
    private var hexLeft = 0
    private var continuation = 0
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xbf
    private var markAt = 0

    package init() {}

    /// - Returns: false as soon as the text cannot be valid any more.
    package mutating func consume(_ bytes: Span<UInt8>) -> Bool {
        bytes.withUnsafeBufferPointer { buffer in
            var index = skipMark(buffer)
            let end = buffer.count
            while index < end {
                if state == .string {
                    index = Self.plainEnd(buffer, from: index)
                    guard index < end else { break }
                }
                step(buffer[index])
                if state == .failed { return false }
                index += 1
            }
            return state != .failed
        }
    }

    package mutating func finish() -> JSONVerdict {
        guard seenAny else { return state == .failed || markAt == 1 || markAt == 2 ? .invalid : .empty }
        switch state {
        case .afterValue where depth == 0: return isScalar ? .validScalar : .valid
        case .zero, .integer, .fraction, .exponentDigits: return depth == 0 ? .validScalar : .invalid
        default: return .invalid
        }
    }

    package static func check(_ bytes: Span<UInt8>) -> JSONVerdict {
        var checker = JSONTextChecker()
        return checker.consume(bytes) ? checker.finish() : .invalid
    }

    /// A byte order mark (EF BB BF) at the very start.
    private mutating func skipMark(_ buffer: UnsafeBufferPointer<UInt8>) -> Int {
        guard !seenAny, markAt < 3 else { return 0 }
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        var index = 0
        while markAt < 3, index < buffer.count {
            guard buffer[index] == mark[markAt] else {
                if markAt > 0 { state = .failed }
                markAt = 3
                return index
            }
            markAt += 1
            index += 1
        }
        return index
    }

    /// The first byte from `start` that is not plain text within a string: a quote, an escape, a control or the start of a UTF-8 sequence.
    /// Eight bytes at a time: the high bit of each lane tells whether that byte is one of them.
    private static func plainEnd(_ buffer: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = start
        let ones: UInt64 = 0x0101_0101_0101_0101
        let high: UInt64 = 0x8080_8080_8080_8080
        let base = UnsafeRawPointer(buffer.baseAddress!)
        while index + 8 <= buffer.count {
            let word = base.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let quote = word ^ (ones &* 0x22)
            let slash = word ^ (ones &* 0x5c)
            let special = ((quote &- ones) & ~quote) | ((slash &- ones) & ~slash) | ((word &- (ones &* 0x20)) & ~word) | word
            if special & high != 0 { break }
            index += 8
        }
        while index < buffer.count {
            let byte = buffer[index]
            if byte == 0x22 || byte == 0x5c || byte < 0x20 || byte >= 0x80 { return index }
            index += 1
        }
        return index
    }

    private mutating func step(_ byte: UInt8) {
        switch state {
        case .value, .firstElement, .firstName, .name, .colon, .afterValue: stepStructure(byte)
        case .string, .escape, .hex, .utf8: stepString(byte)
        case .minus, .zero, .integer, .point, .fraction, .exponent, .exponentSign, .exponentDigits: stepNumber(byte)
        case .literal: stepLiteral(byte)
        case .failed: break
        }
    }

    private mutating func stepStructure(_ byte: UInt8) {
        if byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { return }
        seenAny = true
        switch state {
        case .firstElement where byte == UInt8(ascii: "]"): close(object: false)
        case .value, .firstElement: beginValue(byte)
        case .firstName where byte == UInt8(ascii: "}"): close(object: true)
        case .firstName, .name:
            guard byte == 0x22 else { return fail() }
            isName = true
            state = .string
        case .colon: state = byte == UInt8(ascii: ":") ? .value : .failed
        default: afterValue(byte)
        }
    }

    private mutating func beginValue(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "{"): open(object: true)
        case UInt8(ascii: "["): open(object: false)
        case 0x22:
            isName = false
            state = .string
        case UInt8(ascii: "-"): state = .minus
        case UInt8(ascii: "0"): state = .zero
        case UInt8(ascii: "1")...UInt8(ascii: "9"): state = .integer
        case UInt8(ascii: "t"): begin("true")
        case UInt8(ascii: "f"): begin("false")
        case UInt8(ascii: "n"): begin("null")
        default: fail()
        }
    }

    private mutating func afterValue(_ byte: UInt8) {
        guard depth > 0 else { return fail() }
        switch byte {
        case UInt8(ascii: ","): state = isInObject ? .name : .value
        case UInt8(ascii: "}"): close(object: true)
        case UInt8(ascii: "]"): close(object: false)
        default: fail()
        }
    }

    private var isInObject: Bool { objects[(depth - 1) >> 6] & (1 << UInt64((depth - 1) & 63)) != 0 }

    private mutating func open(object: Bool) {
        guard depth < Self.depthLimit else { return fail() }
        isScalar = false
        let bit: UInt64 = 1 << UInt64(depth & 63)
        if object { objects[depth >> 6] |= bit } else { objects[depth >> 6] &= ~bit }
        depth += 1
        state = object ? .firstName : .firstElement
    }

    private mutating func close(object: Bool) {
        guard depth > 0, isInObject == object else { return fail() }
        depth -= 1
        state = .afterValue
    }

    private mutating func begin(_ word: StaticString) {
        literal = word
        literalAt = 1
        state = .literal
    }

    private mutating func stepLiteral(_ byte: UInt8) {
        guard byte == literal.utf8Start[literalAt] else { return fail() }
        literalAt += 1
        if literalAt == literal.utf8CodeUnitCount { state = .afterValue }
    }

    private mutating func stepString(_ byte: UInt8) {
        switch state {
        case .string: stepPlain(byte)
        case .escape: stepEscape(byte)
        case .hex:
            guard byte.hexValue != nil else { return fail() }
            hexLeft -= 1
            if hexLeft == 0 { state = .string }
        default:
            guard byte >= lowest, byte <= highest else { return fail() }
            (lowest, highest) = (0x80, 0xbf)
            continuation -= 1
            if continuation == 0 { state = .string }
        }
    }

    private mutating func stepPlain(_ byte: UInt8) {
        switch byte {
        case 0x22: state = isName ? .colon : .afterValue
        case 0x5c: state = .escape
        case 0x20..<0x80: break
        case 0xc2...0xdf: begin(continuation: 1)
        case 0xe0: begin(continuation: 2, lowest: 0xa0)
        case 0xed: begin(continuation: 2, highest: 0x9f)
        case 0xe1...0xef: begin(continuation: 2)
        case 0xf0: begin(continuation: 3, lowest: 0x90)
        case 0xf1...0xf3: begin(continuation: 3)
        case 0xf4: begin(continuation: 3, highest: 0x8f)
        default: fail()
        }
    }

    private mutating func begin(continuation count: Int, lowest: UInt8 = 0x80, highest: UInt8 = 0xbf) {
        continuation = count
        (self.lowest, self.highest) = (lowest, highest)
        state = .utf8
    }

    private mutating func stepEscape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "u"):
            hexLeft = 4
            state = .hex
        case 0x22, 0x5c, UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            state = .string
        default: fail()
        }
    }

    private mutating func stepNumber(_ byte: UInt8) {
        let isDigit = byte.isASCIIDigit
        switch state {
        case .minus: state = byte == 0x30 ? .zero : isDigit ? .integer : .failed
        case .point: state = isDigit ? .fraction : .failed
        case .exponent: state = isDigit ? .exponentDigits : byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-") ? .exponentSign : .failed
        case .exponentSign: state = isDigit ? .exponentDigits : .failed
        case .integer where isDigit, .fraction where isDigit, .exponentDigits where isDigit: break
        case .zero where byte == UInt8(ascii: "."), .integer where byte == UInt8(ascii: "."): state = .point
        case .zero where byte | 0x20 == UInt8(ascii: "e"), .integer where byte | 0x20 == UInt8(ascii: "e"),
            .fraction where byte | 0x20 == UInt8(ascii: "e"):
            state = .exponent
        default:
            // The number ended with the byte before; this one is judged as what follows a value.
            state = .afterValue
            stepStructure(byte)
        }
    }

    private mutating func fail() { state = .failed }
}
