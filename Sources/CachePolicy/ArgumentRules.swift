// How a route's arguments count for the key: which make no difference, which the upstream never gets, and what else is the same.

import HTTPCore

public struct ArgumentRules: Sendable, Equatable {
    /// Whether arguments in another order are the same. Values of one name never change places.
    public var sorts = true
    public var ignore: [ArgumentPattern] = []
    /// Empty: all.
    public var only: [ArgumentPattern] = []
    /// Arguments that the upstream does not get.
    public var drop: [ArgumentPattern] = []
    /// Whether capital and small ASCII letters are the same.
    public var ignoresCase = false
    /// Whether `/users?` is another target than `/users`, as it is to the letter (RFC 3986 §6.2.3).
    public var keepsEmptyQuery = false
    /// What the upstream said of them.
    var variance: SearchVariance?

    public init() {}

    /// Whether the key is another than without rules.
    public var isSpecial: Bool { ignoresSome || !sorts || ignoresCase || keepsEmptyQuery }

    /// Whether some arguments are left out of the key.
    var ignoresSome: Bool { !ignore.isEmpty || !only.isEmpty || !drop.isEmpty || variance != nil }

    /// Whether an argument of a target is part of its key. One that is ignored counts nevertheless if a server may find another one in it.
    /// - Parameters:
    ///   - name: in its canonical spelling.
    ///   - text: name and value in their canonical spelling.
    func keeps(_ name: UnsafeBufferPointer<UInt8>, of text: UnsafeBufferPointer<UInt8>) -> Bool {
        keeps(name) || ArgumentName.mayHideAnother(text)
    }

    /// Whether an argument is part of the key, as far as its name tells.
    /// - Parameter name: in its canonical spelling.
    func keeps(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        if ignore.contains(where: { $0.matches(name, ignoresCase) }) { return false }
        if !only.isEmpty, !only.contains(where: { $0.matches(name, ignoresCase) || $0.mayBeRead(in: name) }) { return false }
        return variance?.keeps(name, ignoringCase: ignoresCase) ?? true
    }

    /// Whether the upstream does not get an argument.
    /// - Parameter name: in its canonical spelling.
    func drops(_ name: UnsafeBufferPointer<UInt8>) -> Bool { drop.contains { $0.matches(name, ignoresCase) } }

    /// A target without the arguments that the upstream does not get; nil if it gets all of them.
    /// - Parameter target: path and query as received.
    public func sent(_ target: ArraySlice<UInt8>) -> [UInt8]? {
        let path = target.withoutQuery
        guard !drop.isEmpty, path.endIndex < target.endIndex else { return nil }
        let arguments = target[(path.endIndex + 1)...].split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        let left = arguments.filter { argument in
            var name: [UInt8] = []
            CacheKey.appendArgumentName(Array(argument.prefix { $0 != UInt8(ascii: "=") }), to: &name)
            return !name.withUnsafeBufferPointer(drops)
        }
        guard left.count < arguments.count else { return nil }
        return Array(path) + (left.isEmpty ? [] : [UInt8(ascii: "?")] + left.joined(separator: [UInt8(ascii: "&")]))
    }
}

extension ArgumentRules: PathRules {
    /// What merges requests opens; which arguments the upstream gets is as the path was written.
    public func stricter(_ other: ArgumentRules) -> ArgumentRules {
        guard self != other else { return self }
        var rules = ArgumentRules()
        rules.drop = drop
        rules.sorts = sorts && other.sorts
        rules.ignoresCase = ignoresCase && other.ignoresCase
        rules.keepsEmptyQuery = keepsEmptyQuery || other.keepsEmptyQuery
        return rules
    }
}

/// An argument's name, or with `*` at its end all names that begin so.
public struct ArgumentPattern: Sendable, Equatable {
    private let name: [UInt8]
    private let folded: [UInt8]
    /// As servers may read the name.
    private let read: [UInt8]
    private let takesRest: Bool

    /// - Parameter text: the name as it means, not percent-encoded.
    public init(_ text: String) {
        takesRest = text.hasSuffix("*")
        var canonical: [UInt8] = []
        CacheKey.appendName(Array((takesRest ? String(text.dropLast()) : text).utf8), to: &canonical)
        name = canonical
        folded = canonical.map(\.asciiLowercased)
        read = canonical.withUnsafeBufferPointer(ArgumentName.read)
    }

    fileprivate func matches(_ other: UnsafeBufferPointer<UInt8>, _ ignoresCase: Bool) -> Bool {
        let wanted = ignoresCase ? folded : name
        guard takesRest ? other.count >= wanted.count : other.count == wanted.count else { return false }
        for index in wanted.indices where (ignoresCase ? other[index].asciiLowercased : other[index]) != wanted[index] { return false }
        return true
    }

    /// Whether a server may take another name for one of these.
    fileprivate func mayBeRead(in other: UnsafeBufferPointer<UInt8>) -> Bool {
        let given = ArgumentName.read(other)
        return takesRest ? given.starts(with: read) : given == read || ArgumentName.beforeDot(other) == read
    }
}

/// What servers make of an argument's name: PHP has `q[]`, `q.x` and ` q` set `q` or `q_x`, Rails takes brackets for members, others dots, and some
/// compare without case or end at a zero byte.
enum ArgumentName {
    /// - Parameter name: in its canonical spelling.
    static func read(_ name: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        var out: [UInt8] = []
        var index = 0
        while index < name.count {
            var byte = name[index]
            if byte == UInt8(ascii: "%"), index + 2 < name.count {
                byte = (name[index + 1].hexValue ?? 0) << 4 | (name[index + 2].hexValue ?? 0)
                index += 2
            }
            index += 1
            switch byte {
            case 0, UInt8(ascii: "["): return out
            case UInt8(ascii: " ") where out.isEmpty: break
            case UInt8(ascii: " "), UInt8(ascii: "."): out.append(UInt8(ascii: "_"))
            default: out.append(byte.asciiLowercased)
            }
        }
        return out
    }

    /// The same of what stands before the first dot.
    static func beforeDot(_ name: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        read(UnsafeBufferPointer(rebasing: name.prefix { $0 != UInt8(ascii: ".") }))
    }

    /// Whether some servers end an argument within this one: at a semicolon, also one that a proxy in between decodes, or at a zero byte.
    /// - Parameter text: in its canonical spelling.
    static func mayHideAnother(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        text.indices.contains { index in
            if text[index] == UInt8(ascii: ";") { return true }
            guard text[index] == UInt8(ascii: "%"), index + 2 < text.count else { return false }
            let (high, low) = (text[index + 1], text[index + 2])
            return (high == UInt8(ascii: "3") && low == UInt8(ascii: "B")) || (high == UInt8(ascii: "0") && low == UInt8(ascii: "0"))
        }
    }
}
