// Canonical form of JSON texts: members sorted by name, no white space, uniform strings and numbers. Follows RFC 8785, except that numbers
// that a double cannot represent keep their digits, because two large identifiers must not become equal.
//
// Writes in one pass without a tree. Open containers are on a stack, and the members of an object are sorted in the output when it ends. In
// practice most objects have few members, or members in a constant order.

import HTTPCore

public enum CanonicalJSON {
    /// Returns the canonical form. Returns nil if the text is invalid or too deep, or an object has too many members or a repeated name
    /// (undefined by RFC 8259 §4).
    public static func make(_ text: Span<UInt8>) -> [UInt8]? {
        guard [.valid, .validScalar].contains(JSONTextChecker.check(text)) else { return nil }
        return make(checked: text)
    }

    /// - Parameter text: text that `JSONTextChecker` accepted as valid.
    public static func make(checked text: Span<UInt8>) -> [UInt8]? {
        text.withUnsafeBufferPointer { text in
            // RFC 8785 does not permit a byte order mark.
            guard text.first != 0xef else { return nil }
            var writer = CanonicalWriter(text)
            var cursor = JSONCursor(text)
            while let token = cursor.next() {
                guard writer.take(token, hasEscapes: cursor.hasEscapes) else { return nil }
            }
            return writer.out
        }
    }
}

private struct CanonicalWriter {
    private let text: UnsafeBufferPointer<UInt8>
    private(set) var out: [UInt8] = []
    private var open: [Container] = []
    /// Members of all open objects; those of the innermost object come last.
    private var members: [Member] = []
    private var scratch: [UInt8] = []

    private static let usualCount = 16
    /// Maximum depth of a value. Sorting members may copy each byte once for each level.
    private static let depthLimit = 64
    /// Maximum number of members of an object; sorting more would block too long.
    private static let memberLimit = 1 << 16

    private struct Container {
        let isObject: Bool
        /// Offset after the opening bracket.
        let start: Int
        let firstMember: Int
    }

    /// Offsets in the output.
    private struct Member {
        /// Range of the name with its quotes.
        let name: Range<Int>
        var end: Int
    }

    init(_ text: UnsafeBufferPointer<UInt8>) {
        self.text = text
        out.reserveCapacity(text.count)
        members.reserveCapacity(Self.usualCount)
        open.reserveCapacity(Self.usualCount)
    }

    /// - Parameter hasEscapes: whether a name or string contains escapes.
    /// - Returns: false if there is no canonical form.
    mutating func take(_ token: JSONToken, hasEscapes: Bool) -> Bool {
        switch token {
        case .name(let range): return beginMember(range, hasEscapes)
        case .endObject: return endObject()
        case .endArray: end(UInt8(ascii: "]"))
        case .beginObject: return begin(isObject: true)
        case .beginArray: return begin(isObject: false)
        case .string(let range): return beginValue() && appendString(range, hasEscapes)
        case .literal(let range):
            guard beginValue() else { return false }
            out.append(contentsOf: UnsafeBufferPointer(rebasing: text[range]))
        case .number(let range):
            guard beginValue() else { return false }
            appendNumber(UnsafeBufferPointer(rebasing: text[range]))
        }
        return true
    }

    private mutating func begin(isObject: Bool) -> Bool {
        guard beginValue() else { return false }
        out.append(isObject ? UInt8(ascii: "{") : UInt8(ascii: "["))
        open.append(Container(isObject: isObject, start: out.count, firstMember: members.count))
        return true
    }

    private mutating func beginValue() -> Bool {
        guard open.count < Self.depthLimit else { return false }
        if let container = open.last, !container.isObject, out.count > container.start { out.append(UInt8(ascii: ",")) }
        return true
    }

    private mutating func end(_ bracket: UInt8) {
        _ = open.popLast()
        out.append(bracket)
    }

    // MARK: Members

    private mutating func beginMember(_ range: Range<Int>, _ hasEscapes: Bool) -> Bool {
        guard let container = open.last, members.count - container.firstMember < Self.memberLimit else { return false }
        endMember(of: container)
        if out.count > container.start { out.append(UInt8(ascii: ",")) }
        let start = out.count
        let after = range.upperBound + 1
        guard hasEscapes || text[after] != UInt8(ascii: ":") else {
            // Nearly always, the colon follows the name immediately.
            out.append(contentsOf: UnsafeBufferPointer(rebasing: text[range.lowerBound - 1...after]))
            members.append(Member(name: start..<out.count - 1, end: out.count))
            return true
        }
        guard appendString(range, hasEscapes) else { return false }
        members.append(Member(name: start..<out.count, end: out.count))
        out.append(UInt8(ascii: ":"))
        return true
    }

    private mutating func endMember(of container: Container) {
        if members.count > container.firstMember { members[members.count - 1].end = out.count }
    }

    private mutating func endObject() -> Bool {
        guard let container = open.last else { return false }
        endMember(of: container)
        guard sortMembers(from: container.firstMember, in: container.start) else { return false }
        members.removeLast(members.count - container.firstMember)
        end(UInt8(ascii: "}"))
        return true
    }

    /// Sorts members by the bytes of their names as written.
    /// - Returns: false if a name is repeated.
    private mutating func sortMembers(from first: Int, in start: Int) -> Bool {
        let memberIndices = members.indices[first...]
        if memberIndices.dropFirst().allSatisfy({ order(members[$0 - 1].name, members[$0].name) < 0 }) { return true }
        if memberIndices.count <= Self.fewMembers {
            insertionSort(memberIndices)
        } else {
            let sorted = members[first...].sorted { order($0.name, $1.name) < 0 }
            members.replaceSubrange(memberIndices, with: sorted)
        }
        for index in memberIndices.dropFirst() where order(members[index - 1].name, members[index].name) == 0 { return false }
        scratch.removeAll(keepingCapacity: true)
        scratch.append(contentsOf: out[start...])
        out.removeLast(out.count - start)
        for index in memberIndices {
            if index > first { out.append(UInt8(ascii: ",")) }
            out.append(contentsOf: scratch[members[index].name.lowerBound - start..<members[index].end - start])
        }
        return true
    }

    /// Maximum number of members that are sorted without allocation; nearly all objects are smaller.
    private static let fewMembers = 24

    private mutating func insertionSort(_ memberIndices: Range<Int>) {
        for index in memberIndices.dropFirst() {
            let member = members[index]
            var target = index
            while target > memberIndices.lowerBound, order(member.name, members[target - 1].name) < 0 {
                members[target] = members[target - 1]
                target -= 1
            }
            if target != index { members[target] = member }
        }
    }

    /// Returns a value less than, equal to or greater than 0.
    private func order(_ one: Range<Int>, _ other: Range<Int>) -> Int {
        out.withUnsafeBufferPointer { out in
            for index in 0..<min(one.count, other.count) {
                let (left, right) = (out[one.lowerBound + index], out[other.lowerBound + index])
                if left != right { return left < right ? -1 : 1 }
            }
            return one.count - other.count
        }
    }

    // MARK: Numbers

    /// Appends a number. A double distinguishes numbers of up to 15 digits, except for subnormal ones, so `1`, `1.0` and `1e0` become
    /// equal. Others keep their text.
    private mutating func appendNumber(_ spelt: UnsafeBufferPointer<UInt8>) {
        if Self.isCanonical(spelt) { return out.append(contentsOf: spelt) }
        let mantissa = spelt.prefix { $0 | 0x20 != UInt8(ascii: "e") }
        guard mantissa.count(where: \.isASCIIDigit) <= 15, spelt.count <= Self.longestNumber,
            let value = Double(String(decoding: spelt, as: UTF8.self)), value.isNormal || value == 0
        else { return out.append(contentsOf: spelt) }
        if value == 0 {
            // Minus zero equals zero; a value too small for a double keeps its text.
            let isZero = mantissa.allSatisfy { !(0x31...0x39).contains($0) }
            return isZero ? out.append(0x30) : out.append(contentsOf: spelt)
        }
        // A larger integer would get digits that were not in the text, and could become equal to a different number.
        let whole = value.magnitude < Self.wholeLimit ? Int64(exactly: value) : nil
        out.append(contentsOf: (whole.map { String($0) } ?? value.description).utf8)
    }

    /// Returns whether a number without an exponent, as most are, already has the spelling that a double of its value gets: a double
    /// distinguishes all numbers with 15 digits, so none of them has a shorter spelling.
    private static func isCanonical(_ spelt: UnsafeBufferPointer<UInt8>) -> Bool {
        let digits = UnsafeBufferPointer(rebasing: spelt.first == UInt8(ascii: "-") ? spelt.dropFirst() : spelt[...])
        guard digits.count <= 15, let first = digits.first else { return false }
        var hasPoint = false
        for byte in digits where !byte.isASCIIDigit {
            guard byte == UInt8(ascii: "."), !hasPoint else { return false }
            hasPoint = true
        }
        // Fractions below 1 may be written with an exponent, 1.0 is written as 1, and -0 as 0.
        if hasPoint { return first != 0x30 && digits[digits.count - 1] != 0x30 }
        return first != 0x30 || digits.count == spelt.count
    }

    /// 2⁵³: below it, doubles represent every integer exactly.
    private static let wholeLimit = 0x1p53
    /// Maximum length in bytes. A longer number has mostly zeros in its exponent, and keeps its text.
    private static let longestNumber = 64

    // MARK: Strings

    /// - Returns: false if the string is not valid Unicode text.
    private mutating func appendString(_ range: Range<Int>, _ hasEscapes: Bool) -> Bool {
        guard hasEscapes else {
            out.append(contentsOf: UnsafeBufferPointer(rebasing: text[range.lowerBound - 1..<min(range.upperBound + 1, text.count)]))
            return true
        }
        out.append(0x22)
        defer { out.append(0x22) }
        scratch.removeAll(keepingCapacity: true)
        guard JSONString.appendMeaning(of: range, in: text, to: &scratch) else { return false }
        for byte in scratch {
            switch byte {
            case 0x22, 0x5c: out.append(contentsOf: [0x5c, byte])
            case 0..<0x20: appendControl(byte)
            default: out.append(byte)
            }
        }
        return true
    }

    private mutating func appendControl(_ byte: UInt8) {
        out.append("\\u00")
        out.append(byte < 0x10 ? 0x30 : 0x31)
        let low = byte & 15
        out.append(low < 10 ? 0x30 + low : UInt8(ascii: "a") + low - 10)
    }
}
