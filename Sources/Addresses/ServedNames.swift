// The host names that this deployment serves.

import HTTPCore

public struct ServedNames: Sendable, Hashable {
    private struct Name: Hashable {
        let host: [UInt8]
        /// nil matches every port.
        let port: [UInt8]?
    }

    private var names: Set<Name> = []
    /// The names after `*.`.
    private var suffixes: Set<Name> = []

    /// - Parameter texts: texts that `isName` accepts.
    public init(_ texts: [String] = []) {
        for text in texts {
            let (host, port) = Self.split(Array(text.utf8)[...])
            if host.starts(with: Array("*.".utf8)) {
                suffixes.insert(Name(host: Array(host.dropFirst(2)), port: port))
            } else {
                names.insert(Name(host: host, port: port))
            }
        }
    }

    public static let form = "a host such as api.example.com, *.example.com or [2001:db8::1], perhaps with :PORT"

    public static func isName(_ text: String) -> Bool {
        let (host, port) = split(Array(text.utf8)[...])
        if let port {
            guard port.allSatisfy(\.isASCIIDigit), UInt16(String(decoding: port, as: UTF8.self)) != nil else { return false }
        }
        if host.first == UInt8(ascii: "[") { return host.last == UInt8(ascii: "]") && IPAddress(host.dropFirst().dropLast()) != nil }
        let labels = (host.starts(with: Array("*.".utf8)) ? host.dropFirst(2) : host[...]).split(
            separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return labels.allSatisfy { label in
            !label.isEmpty && label.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        }
    }

    public var isEmpty: Bool { names.isEmpty && suffixes.isEmpty }

    /// How exactly a name matches.
    public enum Fit: Int, Comparable {
        case byStar = 1
        case byStarWithPort, exact, exactWithPort

        public static func < (left: Fit, right: Fit) -> Bool { left.rawValue < right.rawValue }
    }

    /// - Parameter authority: `host[:port]`, as in a Host field.
    public func contains(_ authority: ArraySlice<UInt8>) -> Bool { fit(authority) != nil }

    public func fit(_ authority: ArraySlice<UInt8>) -> Fit? {
        let (host, port) = Self.split(authority)
        if let hasPort = Self.has(names, host, port) { return hasPort ? .exactWithPort : .exact }
        // `*` matches one label, as in certificates (RFC 6125 §6.4.3).
        guard let dot = host.firstIndex(of: UInt8(ascii: ".")), dot > 0,
            let hasPort = Self.has(suffixes, Array(host[(dot + 1)...]), port)
        else { return nil }
        return hasPort ? .byStarWithPort : .byStar
    }

    /// nil if the name is not contained; else whether the port matched too.
    private static func has(_ names: Set<Name>, _ host: [UInt8], _ port: [UInt8]?) -> Bool? {
        if let port, names.contains(Name(host: host, port: port)) { return true }
        return names.contains(Name(host: host, port: nil)) ? false : nil
    }

    /// Splits an authority. The host is in lower case, without the trailing dot of a fully qualified name.
    private static func split(_ authority: ArraySlice<UInt8>) -> (host: [UInt8], port: [UInt8]?) {
        var (host, port) = (authority, nil as ArraySlice<UInt8>?)
        let start =
            authority.first == UInt8(ascii: "[")
            ? authority.firstIndex(of: UInt8(ascii: "]")) ?? authority.startIndex : authority.startIndex
        if let colon = authority[start...].firstIndex(of: UInt8(ascii: ":")) {
            (host, port) = (authority[..<colon], authority[(colon + 1)...])
        }
        if host.count > 1, host.last == UInt8(ascii: ".") { host = host.dropLast() }
        return (host.map(\.asciiLowercased), port.map { Array($0) })
    }

    /// Returns the port of an authority; nil if it has none.
    public static func port(of authority: ArraySlice<UInt8>) -> UInt16? {
        split(authority).port.flatMap { UInt16(String(decoding: $0, as: UTF8.self)) }
    }
}
