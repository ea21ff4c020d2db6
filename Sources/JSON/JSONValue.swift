// A JSON text as a value (RFC 8259), for the administrator's interface and for archives, where convenience matters more than speed. JSON of
// clients and upstreams is only checked (`JSONTextChecker`), never built.

import HTTPCore

public indirect enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int)
    case number(Double)
    case string(String)
    case array([JSONValue])
    /// Members in order. A lookup returns the first member with a repeated name.
    case object([Member])

    public struct Member: Sendable, Equatable {
        public let name: String
        public let value: JSONValue

        public init(_ name: String, _ value: JSONValue) {
            self.name = name
            self.value = value
        }
    }

    /// nil if the bytes are not exactly one valid JSON text.
    public init?(_ bytes: [UInt8]) {
        guard [.valid, .validScalar].contains(JSONTextChecker.check(bytes.span)) else { return nil }
        var reader = JSONReader(bytes: bytes)
        self = reader.value()
    }

    public subscript(_ name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name == name }?.value
    }

    public var string: String? { if case .string(let text) = self { text } else { nil } }
    public var array: [JSONValue]? { if case .array(let items) = self { items } else { nil } }
    public var members: [Member]? { if case .object(let members) = self { members } else { nil } }
    public var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }

    public var integer: Int? {
        switch self {
        case .integer(let value): value
        case .number(let value): Int(exactly: value.rounded())
        default: nil
        }
    }

    public var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral {
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int) { self = .integer(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
}

extension JSONValue: ExpressibleByDictionaryLiteral {
    /// Members with a nil value are omitted.
    public init(dictionaryLiteral elements: (String, JSONValue?)...) {
        self = .object(elements.compactMap { name, value in value.map { Member(name, $0) } })
    }
}

// MARK: Writing

extension JSONValue {
    /// The indented text with a line feed at the end, as pages and commands write it.
    public var document: [UInt8] { serialized(isIndented: true) + [0x0a] }

    /// - Parameter isIndented: whether to write several lines, for people.
    public func serialized(isIndented: Bool = false) -> [UInt8] {
        var out: [UInt8] = []
        write(to: &out, indent: isIndented ? 0 : nil)
        return out
    }

    /// Returns the text indented for a position at this depth in a larger text. The first line has no indentation.
    public func serialized(depth: Int) -> [UInt8] {
        var out: [UInt8] = []
        write(to: &out, indent: depth)
        return out
    }

    private func write(to out: inout [UInt8], indent: Int?) {
        switch self {
        case .null: out.append("null")
        case .bool(let flag): out.append(flag ? "true" : "false")
        case .integer(let value): out += Array(String(value).utf8)
        case .number(let value): out += Array((value.isFinite ? "\(value)" : "null").utf8)
        case .string(let text): Self.write(text, to: &out)
        case .array(let items):
            Self.write(items, within: ("[", "]"), to: &out, indent) { $0.write(to: &$1, indent: $2) }
        case .object(let members):
            Self.write(members, within: ("{", "}"), to: &out, indent) { member, out, indent in
                Self.write(member.name, to: &out)
                out.append(indent == nil ? ":" : ": ")
                member.value.write(to: &out, indent: indent)
            }
        }
    }

    private static func write<Item>(
        _ items: [Item], within brackets: (StaticString, StaticString), to out: inout [UInt8], _ indent: Int?,
        _ writeOne: (Item, inout [UInt8], Int?) -> Void
    ) {
        out.append(brackets.0)
        for (index, item) in items.enumerated() {
            if index > 0 { out.append(",") }
            if let indent { out += [0x0a] + repeatElement(0x20, count: (indent + 1) * 2) }
            writeOne(item, &out, indent.map { $0 + 1 })
        }
        if let indent, !items.isEmpty { out += [0x0a] + repeatElement(0x20, count: indent * 2) }
        out.append(brackets.1)
    }

    private static func write(_ text: String, to out: inout [UInt8]) {
        out.append(0x22)
        for byte in text.utf8 {
            switch byte {
            case 0x22, 0x5c: out += [0x5c, byte]
            case 0x0a: out.append("\\n")
            case 0x0d: out.append("\\r")
            case 0x09: out.append("\\t")
            case 0..<0x20:
                let digits = String(byte, radix: 16)
                out += Array(("\\u00" + (digits.utf8.count == 1 ? "0" : "") + digits).utf8)
            default: out.append(byte)
            }
        }
        out.append(0x22)
    }
}

// MARK: Reading

/// Reads a text that was checked, and thus is not deeper than `JSONTextChecker.depthLimit`.
private struct JSONReader {
    let bytes: [UInt8]
    var position = 0

    init(bytes: [UInt8]) {
        self.bytes = bytes
        if bytes.starts(with: [0xef, 0xbb, 0xbf]) { position = 3 }
    }

    private var byte: UInt8 { position < bytes.count ? bytes[position] : 0 }

    private mutating func skipSpace() {
        while byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { position += 1 }
    }

    mutating func value() -> JSONValue {
        skipSpace()
        switch byte {
        case UInt8(ascii: "{"): return object()
        case UInt8(ascii: "["): return array()
        case 0x22: return .string(string())
        case UInt8(ascii: "t"):
            position += 4
            return .bool(true)
        case UInt8(ascii: "f"):
            position += 5
            return .bool(false)
        case UInt8(ascii: "n"):
            position += 4
            return .null
        default: return number()
        }
    }

    private mutating func object() -> JSONValue {
        var members: [JSONValue.Member] = []
        while next(after: UInt8(ascii: "{"), closing: UInt8(ascii: "}")) {
            let name = string()
            skipSpace()
            position += 1
            members.append(JSONValue.Member(name, value()))
        }
        return .object(members)
    }

    private mutating func array() -> JSONValue {
        var items: [JSONValue] = []
        while next(after: UInt8(ascii: "["), closing: UInt8(ascii: "]")) { items.append(value()) }
        return .array(items)
    }

    /// Skips the opening bracket or a comma before the next item. Returns false, after skipping the closing bracket, if there is none.
    private mutating func next(after opening: UInt8, closing: UInt8) -> Bool {
        skipSpace()
        if byte == opening || byte == UInt8(ascii: ",") {
            position += 1
            skipSpace()
            guard byte == closing else { return true }
        }
        position += 1
        return false
    }

    private mutating func number() -> JSONValue {
        let start = position
        while position < bytes.count, byte.isASCIIDigit || [0x2b, 0x2d, 0x2e, 0x45, 0x65].contains(byte) { position += 1 }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if let integer = Int(text) { return .integer(integer) }
        return .number(Double(text) ?? .infinity)
    }

    private mutating func string() -> String {
        position += 1
        var text: [UInt8] = []
        while position < bytes.count, byte != 0x22 {
            if byte == 0x5c { escape(&text) } else { text.append(byte) }
            position += 1
        }
        position += 1
        return String(decoding: text, as: UTF8.self)
    }

    /// Leaves the position at the last byte of the escape.
    private mutating func escape(_ text: inout [UInt8]) {
        position += 1
        switch byte {
        case UInt8(ascii: "n"): text.append(0x0a)
        case UInt8(ascii: "r"): text.append(0x0d)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0c)
        case UInt8(ascii: "u"):
            var code = unit()
            if code & 0xfc00 == 0xd800, position + 6 < bytes.count, bytes[position + 1] == 0x5c, bytes[position + 2] == UInt8(ascii: "u") {
                let before = position
                position += 2
                let low = unit()
                if low & 0xfc00 == 0xdc00 { code = 0x10000 + (code & 0x3ff) << 10 + low & 0x3ff } else { position = before }
            }
            text += Array(String(Unicode.Scalar(code) ?? "\u{fffd}").utf8)
        default: text.append(byte)
        }
    }

    private mutating func unit() -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            position += 1
            value = value << 4 | UInt32(byte.hexValue ?? 0)
        }
        return value
    }
}
