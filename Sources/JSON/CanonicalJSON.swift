// Canonical form of JSON texts: members sorted by name, no white space, uniform strings and numbers. Follows RFC 8785, except that numbers
// that a double cannot represent keep their digits, because two large identifiers must not become equal.
//
// Writes in one pass without a tree. Open containers are on a stack, and the members of an object are sorted in the output when it ends. In
// practice most objects have few members, or members in a constant order.

import HTTPCore

public enum CanonicalJSON {
    /// Returns the canonical form. Returns nil if the text is invalid or too deep, or an object has too many members or a repeated name
    /// (undefined by RFC 8259 §4).
    /// - Parameter keepsNumbers: whether numbers keep their spelling. Some programs accept `7` but not `7.0`.
    public static func make(_ text: Span<UInt8>, keepsNumbers: Bool = false) -> [UInt8]? {
        guard [.valid, .validScalar].contains(JSONTextChecker.check(text)) else { return nil }
        return form(ofChecked: text, keepsNumbers: keepsNumbers) { Array(copying: $0) }
    }

    /// - Parameter text: text that `JSONTextChecker` accepted as valid.
    public static func make(checked text: Span<UInt8>) -> [UInt8]? { form(ofChecked: text) { Array(copying: $0) } }

    /// Passes bytes to `body` that are equal for texts with equal canonical forms, and differ for others except by a collision of 128-bit
    /// hashes. The members of small objects need not be sorted.
    public static func digest<Result>(ofChecked text: Span<UInt8>, _ body: (Span<UInt8>) -> Result) -> Result? {
        form(ofChecked: text, hashesMembers: true, body)
    }

    private static func form<Result>(
        ofChecked text: Span<UInt8>, keepsNumbers: Bool = false, hashesMembers: Bool = false, _ body: (Span<UInt8>) -> Result
    ) -> Result? {
        text.withUnsafeBufferPointer { text in
            // RFC 8785 does not permit a byte order mark.
            guard text.first != 0xef else { return nil }
            var writer = CanonicalWriter(text, keepsNumbers: keepsNumbers, hashesMembers: hashesMembers)
            return writer.write() ? writer.out.withBytes(body) : nil
        }
    }
}

private struct CanonicalWriter: ~Copyable {
    private let text: UnsafeBufferPointer<UInt8>
    private let keepsNumbers: Bool
    private let hashesMembers: Bool
    private(set) var out: OutputBuffer<UInt8>
    private var open = OutputBuffer<Container>(capacity: usualCount)
    /// The innermost open container, which is the last of `open`.
    private var container = Container(isObject: false, start: 0, firstMember: 0)
    /// Whether the next string is a name.
    private var expectsName = false
    /// Members of all open objects; those of the innermost object come last.
    private var members = OutputBuffer<Member>(capacity: usualCount)
    /// The members of an object before they are sorted.
    private var unsorted = OutputBuffer<UInt8>(capacity: 0)
    /// A string without its escapes.
    private var decoded: [UInt8] = []

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
        private let nameStart: Int
        private let nameEnd: Int
        var end: Int
        /// The first bytes of the name, as a number with the order of the bytes. Names rarely differ only after them.
        let prefix: UInt64

        init(name: Range<Int>, prefix: UInt64, end: Int) {
            (nameStart, nameEnd, self.prefix, self.end) = (name.lowerBound, name.upperBound, prefix, end)
        }

        /// Range of the name with its quotes.
        var name: Range<Int> { Range(uncheckedBounds: (nameStart, nameEnd)) }
    }

    init(_ text: UnsafeBufferPointer<UInt8>, keepsNumbers: Bool, hashesMembers: Bool) {
        (self.text, self.keepsNumbers, self.hashesMembers) = (text, keepsNumbers, hashesMembers)
        out = OutputBuffer(capacity: text.count + OutputBuffer<UInt8>.slack)
    }

    /// Writes the canonical form. The tokens are read here, because `JSONCursor` takes twice as long.
    /// - Returns: false if there is no canonical form.
    mutating func write() -> Bool {
        var index = 0
        while index < text.count {
            switch text[index] {
            case 0x20, 0x0d, 0x09, UInt8(ascii: ":"): index += 1
            case 0x0a: index = JSONScanning.spacesEnd(text, from: index + 1)
            case UInt8(ascii: ","):
                endMember()
                out.append(UInt8(ascii: ","))
                index += 1
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard begin(isObject: text[index] == UInt8(ascii: "{")) else { return false }
                index += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                guard end(text[index]) else { return false }
                index += 1
            case 0x22:
                guard open.count < Self.depthLimit, let end = appendString(from: index) else { return false }
                index = end
            default:
                guard open.count < Self.depthLimit else { return false }
                index = appendScalar(from: index)
            }
        }
        return true
    }

    private mutating func begin(isObject: Bool) -> Bool {
        guard open.count < Self.depthLimit else { return false }
        out.append(isObject ? UInt8(ascii: "{") : UInt8(ascii: "["))
        container = Container(isObject: isObject, start: out.count, firstMember: members.count)
        open.append(container)
        expectsName = isObject
        return true
    }

    private mutating func end(_ bracket: UInt8) -> Bool {
        guard open.count > 0 else { return false }
        if container.isObject {
            endMember()
            let hashes = hashesMembers && members.count - container.firstMember <= Self.fewMembers
            guard
                hashes
                    ? hashMembers(from: container.firstMember, in: container.start)
                    : sortMembers(from: container.firstMember, in: container.start)
            else { return false }
            members.removeLast(members.count - container.firstMember)
        }
        out.append(bracket)
        open.removeLast(1)
        if let outer = open.last { container = outer }
        expectsName = false
        return true
    }

    // MARK: Members

    /// Begins a member after its name was written.
    /// - Parameter start: offset of the name in the output.
    private mutating func beginMember(at start: Int) -> Bool {
        guard members.count - container.firstMember < Self.memberLimit else { return false }
        members.append(Member(name: start..<out.count, prefix: out.prefix(start..<out.count), end: out.count))
        out.append(UInt8(ascii: ":"))
        expectsName = false
        return true
    }

    private mutating func endMember() {
        guard container.isObject, members.count > container.firstMember else { return }
        members[members.count - 1].end = out.count
        expectsName = true
    }

    /// Sorts members by the bytes of their names as written.
    /// - Returns: false if a name is repeated.
    private mutating func sortMembers(from first: Int, in start: Int) -> Bool {
        guard members.count > first else { return true }
        var next = first + 1
        while next < members.count, isOrdered(next - 1, next) { next += 1 }
        if next == members.count { return true }
        if members.count - first <= Self.fewMembers {
            insertionSort(from: first)
        } else {
            let sorted = members.array(from: first).sorted { precedes($0, $1) }
            for (index, member) in sorted.enumerated() { members[first + index] = member }
        }
        for index in first + 1..<members.count where !isOrdered(index - 1, index) { return false }
        out.move(from: start, to: &unsorted)
        for index in first..<members.count {
            if index > first { out.append(UInt8(ascii: ",")) }
            out.append(unsorted, members[index].name.lowerBound - start..<members[index].end - start)
        }
        return true
    }

    /// Replaces the members by the sum of their hashes, which does not depend on their order.
    /// - Returns: false if a name is repeated.
    private mutating func hashMembers(from first: Int, in start: Int) -> Bool {
        guard members.count > first else { return true }
        var (high, low): (UInt64, UInt64) = (0, 0)
        for index in first..<members.count {
            let member = members[index]
            for former in first..<index where members[former].prefix == member.prefix {
                guard out.order(members[former].name, member.name) != 0 else { return false }
            }
            let hash = out.withBytes { ContentHash.numbers(of: $0.extracting(member.name.lowerBound..<member.end)) }
            (high, low) = (high &+ hash.high, low &+ hash.low)
        }
        out.removeLast(out.count - start)
        for number in [high, low] { out.append(littleEndian: number) }
        return true
    }

    /// Maximum number of members that are sorted or hashed without allocation; nearly all objects are smaller.
    private static let fewMembers = 24

    private mutating func insertionSort(from first: Int) {
        for index in first + 1..<members.count {
            let member = members[index]
            var target = index
            while target > first, precedes(member, members[target - 1]) {
                members[target] = members[target - 1]
                target -= 1
            }
            if target != index { members[target] = member }
        }
    }

    private func isOrdered(_ one: Int, _ other: Int) -> Bool { precedes(members[one], members[other]) }

    private func precedes(_ one: Member, _ other: Member) -> Bool {
        one.prefix != other.prefix ? one.prefix < other.prefix : out.order(one.name, other.name) < 0
    }

    // MARK: Numbers and literals

    /// - Returns: the offset after the number or literal.
    private mutating func appendScalar(from start: Int) -> Int {
        var end = start + 1
        scan: while end < text.count {
            switch text[end] {
            case UInt8(ascii: ","), UInt8(ascii: "]"), UInt8(ascii: "}"), 0x20, 0x0a, 0x0d, 0x09: break scan
            default: end += 1
            }
        }
        // Only literals begin with a letter.
        if keepsNumbers || text[start] >= UInt8(ascii: "a") { out.append(text, start..<end) } else { appendNumber(start..<end) }
        return end
    }

    /// Appends a number. A double distinguishes numbers of up to 15 digits, except for subnormal ones, so `1`, `1.0` and `1e0` become
    /// equal. Others keep their text.
    private mutating func appendNumber(_ range: Range<Int>) {
        let spelt = UnsafeBufferPointer(rebasing: text[range])
        if Self.isCanonical(spelt) { return out.append(text, range) }
        let mantissa = spelt.prefix { $0 | 0x20 != UInt8(ascii: "e") }
        guard mantissa.count(where: \.isASCIIDigit) <= 15, spelt.count <= Self.longestNumber,
            let value = Double(String(decoding: spelt, as: UTF8.self)), value.isNormal || value == 0
        else { return out.append(text, range) }
        if value == 0 {
            // Minus zero equals zero; a value too small for a double keeps its text.
            let isZero = mantissa.allSatisfy { !(0x31...0x39).contains($0) }
            return isZero ? out.append(0x30) : out.append(text, range)
        }
        // A larger integer would get digits that were not in the text, and could become equal to a different number.
        let whole = value.magnitude < Self.wholeLimit ? Int64(exactly: value) : nil
        for byte in (whole.map { String($0) } ?? value.description).utf8 { out.append(byte) }
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

    /// Appends a name or string.
    /// - Returns: the offset after it; nil if it is not valid Unicode text, or there are too many members.
    private mutating func appendString(from start: Int) -> Int? {
        let written = out.count
        var end = JSONScanning.quoteOrEscape(text, from: start + 1)
        let hasEscapes = end < text.count && text[end] == 0x5c
        while end < text.count, text[end] == 0x5c { end = JSONScanning.quoteOrEscape(text, from: end + 2) }
        guard end < text.count else { return nil }
        if hasEscapes {
            guard appendMeaning(of: start + 1..<end) else { return nil }
        } else {
            out.append(text, start..<end + 1)
        }
        return !expectsName || beginMember(at: written) ? end + 1 : nil
    }

    /// Appends a string with escapes.
    /// - Returns: false if it is not valid Unicode text.
    private mutating func appendMeaning(of range: Range<Int>) -> Bool {
        out.append(0x22)
        decoded.removeAll(keepingCapacity: true)
        guard JSONString.appendMeaning(of: range, in: text, to: &decoded) else { return false }
        for byte in decoded {
            switch byte {
            case 0x22, 0x5c:
                out.append(0x5c)
                out.append(byte)
            case 0..<0x20: appendControl(byte)
            default: out.append(byte)
            }
        }
        out.append(0x22)
        return true
    }

    private mutating func appendControl(_ byte: UInt8) {
        for byte in "\\u00".utf8 { out.append(byte) }
        out.append(byte < 0x10 ? 0x30 : 0x31)
        let low = byte & 15
        out.append(low < 10 ? 0x30 + low : UInt8(ascii: "a") + low - 10)
    }
}
