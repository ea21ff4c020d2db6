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
        self = bytes.withUnsafeBufferPointer { text in
            var reader = JSONReader(text)
            return reader.value()
        }
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
    public var document: [UInt8] { serialized(depth: 0) + [0x0a] }

    /// - Parameter depth: depth in a larger text, for which the lines after the first one are indented; nil for one line.
    public func serialized(depth: Int? = nil) -> [UInt8] {
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

/// Builds the value of a text that was checked, and thus is not deeper than `JSONTextChecker.depthLimit`.
private struct JSONReader {
    private var cursor: JSONCursor

    init(_ text: UnsafeBufferPointer<UInt8>) { cursor = JSONCursor(text) }

    mutating func value() -> JSONValue {
        guard let token = cursor.next() else { return .null }
        return value(token) ?? .null
    }

    /// nil at the end of an object or array.
    private mutating func value(_ token: JSONToken) -> JSONValue? {
        switch token {
        case .beginObject:
            var members: [JSONValue.Member] = []
            while case .name(let name)? = cursor.next() { members.append(JSONValue.Member(string(name), value())) }
            return .object(members)
        case .beginArray:
            var items: [JSONValue] = []
            while let token = cursor.next(), let item = value(token) { items.append(item) }
            return .array(items)
        case .name(let range), .string(let range): return .string(string(range))
        case .number(let range): return number(range)
        case .literal(let range):
            switch cursor.text[range.lowerBound] {
            case UInt8(ascii: "t"): return .bool(true)
            case UInt8(ascii: "f"): return .bool(false)
            default: return .null
            }
        case .endObject, .endArray: return nil
        }
    }

    private func number(_ range: Range<Int>) -> JSONValue {
        let text = String(decoding: cursor.text[range], as: UTF8.self)
        if let integer = Int(text) { return .integer(integer) }
        return .number(Double(text) ?? .infinity)
    }

    private func string(_ range: Range<Int>) -> String {
        var text: [UInt8] = []
        JSONString.appendMeaning(of: range, in: cursor.text, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}
