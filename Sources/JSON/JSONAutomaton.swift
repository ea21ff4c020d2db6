// The JSON grammar (RFC 8259) as a state table: a state and the class of a byte give the next state. Only nesting needs more than the
// table, and has actions instead of states.

import HTTPCore

/// Classes of bytes. Bytes that no state distinguishes share a class.
private enum ByteClass: UInt8, CaseIterable {
    case refused, space, lineSpace, openObject, closeObject, openArray, closeArray, comma, colon, quote, backslash, slash
    case minus, plus, point, zero, digit, e, bigE, a, b, f, l, n, r, s, t, u, hexLetter, plain
    /// The bytes of UTF-8 (RFC 3629 §4): continuation bytes by range, then the bytes that begin a sequence.
    case continuation80, continuation90, continuationA0, leadC2, leadE0, leadE1, leadED, leadF0, leadF1, leadF4

    init(_ byte: UInt8) {
        switch byte {
        case 0x20: self = .space
        case 0x09, 0x0a, 0x0d: self = .lineSpace
        case UInt8(ascii: "{"): self = .openObject
        case UInt8(ascii: "}"): self = .closeObject
        case UInt8(ascii: "["): self = .openArray
        case UInt8(ascii: "]"): self = .closeArray
        case UInt8(ascii: ","): self = .comma
        case UInt8(ascii: ":"): self = .colon
        case UInt8(ascii: "\""): self = .quote
        case UInt8(ascii: "\\"): self = .backslash
        case UInt8(ascii: "/"): self = .slash
        case UInt8(ascii: "-"): self = .minus
        case UInt8(ascii: "+"): self = .plus
        case UInt8(ascii: "."): self = .point
        case UInt8(ascii: "0"): self = .zero
        case UInt8(ascii: "1")...UInt8(ascii: "9"): self = .digit
        case UInt8(ascii: "e"): self = .e
        case UInt8(ascii: "E"): self = .bigE
        case UInt8(ascii: "a"): self = .a
        case UInt8(ascii: "b"): self = .b
        case UInt8(ascii: "f"): self = .f
        case UInt8(ascii: "l"): self = .l
        case UInt8(ascii: "n"): self = .n
        case UInt8(ascii: "r"): self = .r
        case UInt8(ascii: "s"): self = .s
        case UInt8(ascii: "t"): self = .t
        case UInt8(ascii: "u"): self = .u
        case _ where byte.hexValue != nil: self = .hexLetter
        case 0x20..<0x80: self = .plain
        case 0x80...0x8f: self = .continuation80
        case 0x90...0x9f: self = .continuation90
        case 0xa0...0xbf: self = .continuationA0
        case 0xc2...0xdf: self = .leadC2
        case 0xe0: self = .leadE0
        case 0xed: self = .leadED
        case 0xe1...0xef: self = .leadE1
        case 0xf0: self = .leadF0
        case 0xf1...0xf3: self = .leadF1
        case 0xf4: self = .leadF4
        default: self = .refused
        }
    }
}

enum JSONState: UInt8, CaseIterable {
    /// Before a value; after `[` (where `]` may follow); after `{`; before a name; before `:`; after a value.
    case value, firstElement, firstName, name, colon, afterValue
    case minus, zero, integer, point, fraction, exponent, exponentSign, exponentDigits
    case t, tr, tru, f, fa, fal, fals, n, nu, nul
    /// Within a string value, and within a name: they differ in what may follow.
    case textEscape, textHex4, textHex3, textHex2, textHex1, textUTF8x1, textUTF8x2, textUTF8x3, textE0, textED, textF0, textF4
    case nameEscape, nameHex4, nameHex3, nameHex2, nameHex1, nameUTF8x1, nameUTF8x2, nameUTF8x3, nameE0, nameED, nameF0, nameF4
    case text, nameText
    /// Actions instead of states; the next state depends on the open container.
    case openArray, openObject, closeArray, closeObject, comma
    case failed

    /// From here to `firstAction`, plain text is skipped.
    static let firstText = JSONState.text.rawValue
    static let firstAction = JSONState.openArray.rawValue
}

/// The table; created once.
struct JSONAutomaton: Sendable {
    /// Class of each byte.
    let classes: [UInt8]
    /// Next state, indexed by state and class.
    let next: [UInt8]

    /// Binary logarithm of the number of classes per state, so that an index is computed by a shift.
    static let shift = 6

    static let shared = JSONAutomaton()

    private init() {
        classes = (0...255).map { ByteClass(UInt8($0)).rawValue }
        var table = TransitionTable()
        table.addStructure()
        table.addNumbers()
        table.addLiterals()
        table.addString([.text, .textEscape, .textHex4, .textHex3, .textHex2, .textHex1], end: .afterValue)
        table.addUTF8([.textUTF8x1, .textUTF8x2, .textUTF8x3, .textE0, .textED, .textF0, .textF4], within: .text)
        table.addString([.nameText, .nameEscape, .nameHex4, .nameHex3, .nameHex2, .nameHex1], end: .colon)
        table.addUTF8([.nameUTF8x1, .nameUTF8x2, .nameUTF8x3, .nameE0, .nameED, .nameF0, .nameF4], within: .nameText)
        next = table.next
    }
}

private struct TransitionTable {
    var next = [UInt8](repeating: JSONState.failed.rawValue, count: JSONState.allCases.count << JSONAutomaton.shift)

    private static let spaces: [ByteClass] = [.space, .lineSpace]
    private static let digits: [ByteClass] = [.zero, .digit]
    private static let hex: [ByteClass] = [.zero, .digit, .e, .bigE, .a, .b, .f, .hexLetter]

    mutating func add(_ state: JSONState, _ classes: [ByteClass], _ then: JSONState) {
        for one in classes { next[Int(state.rawValue) << JSONAutomaton.shift + Int(one.rawValue)] = then.rawValue }
    }

    mutating func addStructure() {
        for state in [JSONState.value, .firstElement, .firstName, .name, .colon, .afterValue] { add(state, Self.spaces, state) }
        for state in [JSONState.value, .firstElement] {
            add(state, [.openObject], .openObject)
            add(state, [.openArray], .openArray)
            add(state, [.quote], .text)
            add(state, [.minus], .minus)
            add(state, [.zero], .zero)
            add(state, [.digit], .integer)
            add(state, [.t], .t)
            add(state, [.f], .f)
            add(state, [.n], .n)
        }
        add(.firstElement, [.closeArray], .closeArray)
        add(.firstName, [.closeObject], .closeObject)
        for state in [JSONState.firstName, .name] { add(state, [.quote], .nameText) }
        add(.colon, [.colon], .value)
        addAfterValue(.afterValue)
    }

    /// Adds what may follow a value. A number has no terminator, so its last states need these transitions too.
    private mutating func addAfterValue(_ state: JSONState) {
        add(state, Self.spaces, .afterValue)
        add(state, [.comma], .comma)
        add(state, [.closeObject], .closeObject)
        add(state, [.closeArray], .closeArray)
    }

    mutating func addNumbers() {
        for state in [JSONState.zero, .integer, .fraction, .exponentDigits] { addAfterValue(state) }
        add(.minus, [.zero], .zero)
        add(.minus, [.digit], .integer)
        add(.integer, Self.digits, .integer)
        for state in [JSONState.zero, .integer] { add(state, [.point], .point) }
        for state in [JSONState.point, .fraction] { add(state, Self.digits, .fraction) }
        for state in [JSONState.zero, .integer, .fraction] { add(state, [.e, .bigE], .exponent) }
        add(.exponent, [.plus, .minus], .exponentSign)
        for state in [JSONState.exponent, .exponentSign, .exponentDigits] { add(state, Self.digits, .exponentDigits) }
    }

    mutating func addLiterals() {
        let steps: [(JSONState, ByteClass, JSONState)] = [
            (.t, .r, .tr), (.tr, .u, .tru), (.tru, .e, .afterValue), (.f, .a, .fa), (.fa, .l, .fal), (.fal, .s, .fals),
            (.fals, .e, .afterValue), (.n, .u, .nu), (.nu, .l, .nul), (.nul, .l, .afterValue),
        ]
        for (state, byte, then) in steps { add(state, [byte], then) }
    }

    /// - Parameter states: plain text, after a backslash, and with four to one hexadecimal digits remaining.
    mutating func addString(_ states: [JSONState], end: JSONState) {
        let text = states[0]
        let structure: [ByteClass] = [.openObject, .closeObject, .openArray, .closeArray, .comma, .colon, .slash, .minus, .plus, .point]
        add(text, structure + Self.hex + [.space, .l, .n, .r, .s, .t, .u, .plain], text)
        add(text, [.quote], end)
        add(text, [.backslash], states[1])
        add(states[1], [.quote, .backslash, .slash, .b, .f, .n, .r, .t], text)
        add(states[1], [.u], states[2])
        for (state, then) in zip(states[2...], states[3...] + [text]) { add(state, Self.hex, then) }
    }

    /// - Parameter states: with one to three continuation bytes remaining, and after the four bytes that restrict the next (RFC 3629 §4).
    mutating func addUTF8(_ states: [JSONState], within text: JSONState) {
        let all: [ByteClass] = [.continuation80, .continuation90, .continuationA0]
        let (one, two, three) = (states[0], states[1], states[2])
        add(text, [.leadC2], one)
        add(text, [.leadE1], two)
        add(text, [.leadF1], three)
        for (lead, state) in zip([ByteClass.leadE0, .leadED, .leadF0, .leadF4], states[3...]) { add(text, [lead], state) }
        add(one, all, text)
        add(two, all, one)
        add(three, all, two)
        add(states[3], [.continuationA0], one)
        add(states[4], [.continuation80, .continuation90], one)
        add(states[5], [.continuation90, .continuationA0], two)
        add(states[6], [.continuation80], two)
    }
}
