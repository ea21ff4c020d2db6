// Two targets have one cache key if and only if a simple reference parser of RFC 3986 finds them equivalent. The parts of a key can be read
// back.

import CachePolicy
import HTTPCore

enum KeysProperty {
    private static let authority = Array("https://upstream.example".utf8)

    /// The input is two targets, one per line; and as a whole, a damaged key.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        if let damaged = StoredKey(bytes) {
            try expect(damaged.baseCount <= bytes.count, "a key is longer than its bytes")
            _ = (damaged.readableTarget, damaged.shortPartition, damaged.credentialFreeKey(of: bytes))
        }
        let lines = bytes.split(separator: 0x0a, maxSplits: 2, omittingEmptySubsequences: false).prefix(2)
        let targets = lines.map { line in [UInt8(ascii: "/")] + line.filter { $0 > 0x20 && $0 != 0x7f } }
        for target in targets { try checkReadBack(target) }
        guard targets.count == 2 else { return }
        let areSame = key(targets[0]) == key(targets[1])
        let meansSame = Meaning(targets[0]) == Meaning(targets[1])
        try expect(areSame == meansSame, areSame ? "one key for two meanings" : "two keys for one meaning")
    }

    private static func key(_ target: [UInt8], partition: [UInt8] = [], extra: [UInt8] = []) -> [UInt8] {
        var key: [UInt8] = []
        let prefix = CacheKey.prefix(authority: authority, partition: partition, extra: extra)
        CacheKey.append(to: &key, prefix: prefix, target: target.span, rules: nil)
        return key
    }

    private static func checkReadBack(_ target: [UInt8]) throws(Violation) {
        let partition = [UInt8](repeating: 7, count: 16)
        var bytes = key(target, partition: partition, extra: target)
        guard let read = StoredKey(bytes) else { throw Violation(description: "a key cannot be decoded") }
        try expect(
            read.authority == authority && read.partition == partition && read.extra == target && read.variant == nil
                && read.baseCount == bytes.count,
            "a key is decoded differently")
        try expect(read.credentialFreeKey(of: bytes) == key(target, extra: target), "the key without a partition differs")
        // A stray percent sign is doubled in the key, so the spelling in the key has another key.
        if read.target.firstRange(of: [0x25, 0x25]) == nil {
            try expect(key(read.target) == key(target), "the canonical target has another key")
        }
        CacheKey.appendVariant(to: &bytes, generation: 1 << 40, selecting: [1, 0, 0, 0, 0x61, 1, 1, 0, 0, 0, 0x62])
        guard let variant = StoredKey(bytes)?.variant else { throw Violation(description: "a variant's key cannot be decoded") }
        try expect(
            variant.generation == 1 << 40 && variant.selecting.map(\.name) == ["a"] && variant.selecting[0].value == "b",
            "a variant's key is decoded differently")
    }
}

/// Meaning of a target, from a slow reference parser. Each character is plain, encoded, or a stray percent sign.
private struct Meaning: Equatable {
    private enum Character: Equatable {
        case plain(UInt8)
        case encoded(UInt8)
        case stray
    }

    private struct Argument: Equatable {
        let name: [Character]
        let value: [Character]?
        /// The name's spelling in keys, by which arguments are sorted.
        let order: [UInt8]
    }

    private let path: [Character]
    private let arguments: [Argument]?

    init(_ target: [UInt8]) {
        let question = target.firstIndex(of: UInt8(ascii: "?"))
        path = Self.characters(target[..<(question ?? target.endIndex)]).map(Self.plainIfUnreserved)
        // An empty query counts as no query.
        let query = question.map { target[($0 + 1)...] }.flatMap { $0.isEmpty ? nil : $0 }
        arguments = query.map { query in
            let texts = query.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
            let arguments = texts.map(Self.argument)
            let order = arguments.indices.sorted { left, right in
                let (one, other) = (arguments[left].order, arguments[right].order)
                return one == other ? left < right : one.lexicographicallyPrecedes(other)
            }
            return order.map { arguments[$0] }
        }
    }

    private static func argument(_ text: ArraySlice<UInt8>) -> Argument {
        let equals = text.firstIndex(of: UInt8(ascii: "="))
        let name = characters(text[..<(equals ?? text.endIndex)]).map(inArgument)
        return Argument(name: name, value: equals.map { characters(text[($0 + 1)...]).map(inArgument) }, order: name.flatMap(spelling))
    }

    private static func characters(_ text: ArraySlice<UInt8>) -> [Character] {
        var characters: [Character] = []
        var rest = text
        while let byte = rest.popFirst() {
            if byte != UInt8(ascii: "%") {
                characters.append(.plain(byte))
            } else if let high = rest.first?.hexValue, let low = rest.dropFirst().first?.hexValue {
                characters.append(.encoded(high << 4 | low))
                rest = rest.dropFirst(2)
            } else {
                characters.append(.stray)
            }
        }
        return characters
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
        default: byte.isASCIILetter || byte.isASCIIDigit
        }
    }

    private static func plainIfUnreserved(_ character: Character) -> Character {
        if case .encoded(let byte) = character, isUnreserved(byte) { .plain(byte) } else { character }
    }

    /// Encoding makes no difference in an argument, except for `;`, which some servers treat as `&`.
    private static func inArgument(_ character: Character) -> Character {
        switch plainIfUnreserved(character) {
        case .plain(UInt8(ascii: "+")): .encoded(0x20)
        case .plain(let byte) where !isUnreserved(byte) && byte != UInt8(ascii: ";"): .encoded(byte)
        case let other: other
        }
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    private static func spelling(_ character: Character) -> [UInt8] {
        switch character {
        case .plain(let byte): [byte]
        case .encoded(let byte): [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        case .stray: [UInt8(ascii: "%"), UInt8(ascii: "%")]
        }
    }
}
