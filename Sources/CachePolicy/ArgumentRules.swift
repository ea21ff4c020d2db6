// A route's rules for query arguments in cache keys: which are ignored, which are removed before forwarding, and how they are compared.

import HTTPCore

public struct ArgumentRules: Sendable, Equatable {
    /// Whether the order of arguments is ignored. The order of values with one name is always kept.
    public var sorts = true
    /// Arguments that are not part of the key.
    public var ignore: [ArgumentPattern] = []
    /// The only arguments that are part of the key. Empty: all.
    public var only: [ArgumentPattern] = []
    /// Arguments that are removed before the request is forwarded.
    public var drop: [ArgumentPattern] = []
    /// Whether the case of ASCII letters is ignored.
    public var ignoresCase = false
    /// Whether `/users?` differs from `/users`, as RFC 3986 §6.2.3 defines.
    public var keepsEmptyQuery = false
    /// The upstream's No-Vary-Search; nil if there is none.
    var variance: SearchVariance?

    public init() {}

    /// True if keys differ from those without rules.
    public var isSpecial: Bool { ignoresSome || !sorts || ignoresCase || keepsEmptyQuery }

    /// True if some arguments are left out of the key.
    var ignoresSome: Bool { !ignore.isEmpty || !only.isEmpty || !drop.isEmpty || variance != nil }

    /// Returns whether an argument of a target is part of its key. An ignored argument counts nevertheless if a server may find another
    /// argument in it.
    /// - Parameters:
    ///   - name: in canonical form.
    ///   - text: name and value in canonical form.
    func keeps(_ name: Span<UInt8>, of text: Span<UInt8>) -> Bool {
        keeps(name) || ArgumentName.mayHideAnother(text)
    }

    /// Returns whether an argument is part of the key, judged by its name only.
    /// - Parameter name: in canonical form.
    func keeps(_ name: Span<UInt8>) -> Bool {
        if ignore.contains(where: { $0.matches(name, ignoresCase) }) { return false }
        if !only.isEmpty, !only.contains(where: { $0.matches(name, ignoresCase) || $0.mayBeRead(in: name) }) { return false }
        return variance?.keeps(name, ignoringCase: ignoresCase) ?? true
    }

    /// Returns whether an argument is removed before forwarding.
    /// - Parameter name: in canonical form.
    func drops(_ name: Span<UInt8>) -> Bool { drop.contains { $0.matches(name, ignoresCase) } }

    /// Returns a target without the removed arguments; nil if none is removed.
    /// - Parameter target: path and query as received.
    public func sent(_ target: ArraySlice<UInt8>) -> [UInt8]? {
        let path = target.withoutQuery
        guard !drop.isEmpty, path.endIndex < target.endIndex else { return nil }
        let arguments = target[(path.endIndex + 1)...].split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        let left = arguments.filter { argument in
            var name: [UInt8] = []
            CacheKey.appendArgumentName(Array(argument.prefix { $0 != UInt8(ascii: "=") }), to: &name)
            return !drops(name.span)
        }
        guard left.count < arguments.count else { return nil }
        return Array(path) + (left.isEmpty ? [] : [UInt8(ascii: "?")] + left.joined(separator: [UInt8(ascii: "&")]))
    }
}

extension ArgumentRules: PathRules {
    /// Merging requests is permissive, so it applies only if both rules permit it. Which arguments are forwarded depends on the path as
    /// received.
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

/// An argument's name. A trailing `*` matches any ending.
public struct ArgumentPattern: Sendable, Equatable {
    private let name: [UInt8]
    private let folded: [UInt8]
    /// The name in the form in which servers may interpret it.
    private let read: [UInt8]
    private let takesRest: Bool

    /// - Parameter text: the decoded name.
    public init(_ text: String) {
        takesRest = text.hasSuffix("*")
        var canonical: [UInt8] = []
        CacheKey.appendName(Array((takesRest ? String(text.dropLast()) : text).utf8), to: &canonical)
        name = canonical
        folded = canonical.map(\.asciiLowercased)
        read = ArgumentName.read(canonical.span)
    }

    /// The pattern as in the settings, in canonical form.
    public var text: String { String(decoding: name, as: UTF8.self) + (takesRest ? "*" : "") }

    fileprivate func matches(_ other: Span<UInt8>, _ ignoresCase: Bool) -> Bool {
        let wanted = ignoresCase ? folded : name
        guard takesRest ? other.count >= wanted.count : other.count == wanted.count else { return false }
        for index in wanted.indices where (ignoresCase ? other[index].asciiLowercased : other[index]) != wanted[index] { return false }
        return true
    }

    /// Returns whether a server may interpret another name as one that the pattern matches.
    fileprivate func mayBeRead(in other: Span<UInt8>) -> Bool {
        let given = ArgumentName.read(other)
        return takesRest ? given.starts(with: read) : given == read || ArgumentName.beforeDot(other) == read
    }
}

/// How servers interpret argument names. PHP maps `q[]`, `q.x` and ` q` to `q` or `q_x`, and Rails reads brackets as members. Other servers
/// read dots as members. Some compare without case, or end a name at a zero byte.
enum ArgumentName {
    /// - Parameter name: in canonical form.
    static func read(_ name: Span<UInt8>) -> [UInt8] {
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

    /// Returns the interpretation of the part before the first dot.
    static func beforeDot(_ name: Span<UInt8>) -> [UInt8] {
        read(name.extracting(..<(name.first(UInt8(ascii: ".")) ?? name.count)))
    }

    /// Returns whether some servers end an argument within this text: at a zero byte, or at a semicolon, also if it is encoded.
    /// - Parameter text: in canonical form.
    static func mayHideAnother(_ text: Span<UInt8>) -> Bool {
        text.indices.contains { index in
            if text[index] == UInt8(ascii: ";") { return true }
            guard text[index] == UInt8(ascii: "%"), index + 2 < text.count else { return false }
            let (high, low) = (text[index + 1], text[index + 2])
            return (high == UInt8(ascii: "3") && low == UInt8(ascii: "B")) || (high == UInt8(ascii: "0") && low == UInt8(ascii: "0"))
        }
    }
}
