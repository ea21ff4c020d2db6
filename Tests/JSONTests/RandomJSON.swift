// Random JSON texts: mostly valid ones, with all spelling variants, and damaged ones.

import TestSupport

struct RandomJSON {
    private var generator: SeededGenerator

    init(_ generator: SeededGenerator) { self.generator = generator }

    private static let names = [
        "a", "b", "ab", "\\u0061", "ä", "z\\n", "", "a name that is longer", "\\u00e4", "\\ud83d\\ude00", "q\\\"", "\\/", "/", "0", "1",
    ]
    private static let scalars = [
        "0", "-0", "1", "10", "1.0", "1e0", "1E+1", "0.1", "1e-7", "123456789012345", "1234567890123456", "12345678901234567890", "1e400",
        "1e-400", "-1.5e3", "100e-2", "0.00", "0e5", "1e22", "5e-324", "true", "false", "null", "\"\"", "\"a\"", "\"\\u0041\"", "\"A\"",
        "\"\\ud800\"", "\"ü\\t\\u0001\"", "\"plain text of more than eight bytes\"", "\"a\\\\b\"", "\"😀\\ud83d\\ude00\"",
    ]
    private static let spaces = ["", "", "", " ", "\n  ", "\t", "\r\n           "]

    mutating func text() -> [UInt8] { texts().one }

    /// Two texts that differ in the order of members only.
    mutating func texts() -> (one: [UInt8], other: [UInt8]) {
        let (before, value, after) = (space(), value(depth: 0), space())
        return (Array((before + value.one + after).utf8), Array((before + value.other + after).utf8))
    }

    /// A damaged text, which is probably invalid.
    mutating func bent() -> [UInt8] {
        var text = text()
        for _ in 0...below(3) {
            let place = below(text.count + 1)
            switch below(3) {
            case 0 where place < text.count: text[place] = UInt8(below(256))
            case 1 where place < text.count: text.remove(at: place)
            default: text.insert(Array("\"\\,{]0:e\u{e4}".utf8)[below(10)], at: place)
            }
        }
        return text
    }

    mutating func below(_ limit: Int) -> Int { generator.below(limit) }

    private mutating func space() -> String { Self.spaces[below(Self.spaces.count)] }

    private mutating func value(depth: Int) -> (one: String, other: String) {
        switch below(depth > 5 ? 6 : 10) {
        case 0...5:
            let scalar = Self.scalars[below(Self.scalars.count)]
            return (scalar, scalar)
        case 6...7: return list("[", "]", (0..<below(5)).map { _ in item("", depth) }, isOrdered: true)
        default:
            let members = (0..<below(4)).map { _ in
                item(space() + "\"" + Self.names[below(Self.names.count)] + "\"" + space() + ":", depth)
            }
            return list("{", "}", members, isOrdered: false)
        }
    }

    private mutating func item(_ start: String, _ depth: Int) -> (one: String, other: String) {
        let (before, value, after) = (start + space(), value(depth: depth + 1), space())
        return (before + value.one + after, before + value.other + after)
    }

    private mutating func list(
        _ start: String, _ end: String, _ items: [(one: String, other: String)], isOrdered: Bool
    ) -> (one: String, other: String) {
        let others = items.map(\.other)
        let end = space() + end
        return (
            start + items.map(\.one).joined(separator: ",") + end,
            start + (isOrdered ? others : others.shuffled(using: &generator)).joined(separator: ",") + end
        )
    }
}
