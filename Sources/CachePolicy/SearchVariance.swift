// Parses No-Vary-Search (draft-ietf-httpbis-no-vary-search-10): the query arguments that do not affect a response, and the resulting rules
// for cache keys. An invalid field counts as absent; arguments must then match exactly.

import HTTPCore
import RawStructuredFieldValues

public struct SearchVariance: Sendable, Equatable {
    /// `key-order`: the order of arguments is ignored. The order of values with one name is always kept.
    let ignoresOrder: Bool
    /// True if `names` lists all arguments that affect the response (`params, except=(…)`); false if it lists those that do not
    /// (`params=(…)`).
    let takesNames: Bool
    /// In the spelling of cache keys, sorted, without duplicates.
    private let names: [[UInt8]]
    /// `names` in lower case.
    private let foldedNames: Set<[UInt8]>
    /// `names` as servers may interpret them (`ArgumentName`).
    private let readNames: Set<[UInt8]>

    /// Maximum total length of the names in bytes. They are part of each key, so a longer field counts as absent.
    private static let limitBytes = 1024
    /// Maximum number of parts of the field, separated by commas, semicolons and spaces.
    private static let limitMembers = 256

    /// nil if the field is absent or invalid, or if it does not change how keys are made.
    public init?(_ fields: Fields) {
        let lines = fields.all(named: "no-vary-search")
        guard !lines.isEmpty, !FieldListLimit.isExceeded(by: lines, separators: ",; ", members: Self.limitMembers) else { return nil }
        var parser = StructuredFieldValueParser(Array(lines.joined(separator: [UInt8(ascii: ",")])))
        guard let dictionary = try? parser.parseDictionaryFieldValue() else { return nil }
        var isOrderFree = false
        if let member = dictionary["key-order"] {
            guard let value = Self.boolean(member) else { return nil }
            isOrderFree = value
        }
        var isWildcard = false
        var listed: [[UInt8]] = []
        if let member = dictionary["params"] {
            if let value = Self.boolean(member) {
                isWildcard = value
            } else {
                guard let names = Self.names(member) else { return nil }
                listed = names
            }
        }
        if let member = dictionary["except"] {
            guard isWildcard, let names = Self.names(member) else { return nil }
            listed = names
        }
        self.init(ignoresOrder: isOrderFree, takesNames: isWildcard, names: listed)
    }

    private init?(ignoresOrder: Bool, takesNames: Bool, names: [[UInt8]]) {
        guard ignoresOrder || takesNames || !names.isEmpty else { return nil }
        guard names.reduce(0, { $0 + $1.count + 1 }) <= Self.limitBytes else { return nil }
        self.ignoresOrder = ignoresOrder
        self.takesNames = takesNames
        self.names = Set(names).sorted { $0.lexicographicallyPrecedes($1) }
        foldedNames = Set(names.map { $0.map(\.asciiLowercased) })
        readNames = Set(names.map { ArgumentName.read($0.span) })
    }

    private static func boolean(_ member: ItemOrInnerList) -> Bool? {
        guard case .item(let item) = member, case .bool(let value) = item.rfc9651BareItem else { return nil }
        return value
    }

    private static func names(_ member: ItemOrInnerList) -> [[UInt8]]? {
        guard case .innerList(let list) = member else { return nil }
        var names: [[UInt8]] = []
        for item in list.bareInnerList {
            guard case .string(let text) = item.rfc9651BareItem, let name = canonical(text) else { return nil }
            names.append(name)
        }
        return names
    }

    /// Returns a name from form encoding in the spelling of cache keys. Returns nil for names that keys spell in more than one way (`;`, a
    /// stray `%`) or that are not UTF-8. Misreading one in `except` would drop an argument that affects the response.
    private static func canonical(_ text: String) -> [UInt8]? {
        guard let decoded = PercentCoding.decode(text.utf8, plusIsSpace: true), !decoded.utf8.contains(UInt8(ascii: "%")),
            !decoded.utf8.contains(UInt8(ascii: ";"))
        else { return nil }
        var name: [UInt8] = []
        CacheKey.appendName(Array(decoded.utf8), to: &name)
        return name
    }

    /// Returns whether an argument is part of the cache key.
    /// - Parameter name: in canonical form.
    func keeps(_ name: Span<UInt8>, ignoringCase: Bool) -> Bool {
        let isListed = ignoringCase ? isListedIgnoringCase(name) : isListed(name)
        return isListed == takesNames || (takesNames && mayBeReadAsListed(name))
    }

    private func mayBeReadAsListed(_ name: Span<UInt8>) -> Bool {
        readNames.contains(ArgumentName.read(name)) || readNames.contains(ArgumentName.beforeDot(name))
    }

    /// Binary search, because both the list of names and the list of arguments may be long.
    private func isListed(_ name: Span<UInt8>) -> Bool {
        var (low, high) = (0, names.count)
        while low < high {
            let middle = (low + high) / 2
            let other = names[middle]
            if other.span.equals(name) { return true }
            if other.span.precedes(name) { low = middle + 1 } else { high = middle }
        }
        return false
    }

    private func isListedIgnoringCase(_ name: Span<UInt8>) -> Bool {
        foldedNames.contains(Array(copying: name).map(\.asciiLowercased))
    }

    // MARK: Encoding

    /// Encoded form in visible ASCII and spaces. It is part of the keys of responses with this variance, so requests under another variance
    /// never find them.
    public var encoded: [UInt8] {
        let kind = [UInt8(ascii: ignoresOrder ? "K" : "k"), UInt8(ascii: takesNames ? "E" : "P")]
        return names.reduce(into: kind) { bytes, name in bytes += [0x20] + name }
    }

    /// nil if the bytes are not an encoded variance.
    public init?(encoded bytes: Span<UInt8>) {
        guard bytes.count >= 2 else { return nil }
        let names = Array(copying: bytes).dropFirst(2).split(separator: 0x20, omittingEmptySubsequences: false).dropFirst().map {
            Array($0)
        }
        self.init(ignoresOrder: bytes[0] == UInt8(ascii: "K"), takesNames: bytes[1] == UInt8(ascii: "E"), names: names)
    }
}

extension ArgumentRules {
    /// Returns the route's rules combined with the upstream's.
    public func with(_ variance: SearchVariance) -> ArgumentRules {
        var rules = self
        rules.variance = variance
        if variance.ignoresOrder { rules.sorts = true }
        return rules
    }
}
