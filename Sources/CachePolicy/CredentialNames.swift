// Matches field names against a list of names. A leading `*` in an entry matches any beginning, because there are more names of credentials
// than a list can hold.

import Forwarding
import HTTPCore

public struct CredentialNames: Sendable, Equatable {
    /// How a name matches the list.
    public enum Match {
        case none, ending, whole
    }

    public static let wellKnown = CredentialNames(WellKnownNames.credentialFields)
    static let wellKnownGroups = CredentialNames(WellKnownNames.groupCredentials)

    /// Names, indexed by their length.
    private var names: [[[UInt8]]] = []
    /// Endings after the `*`, without separators and reversed. Indexed by their last letter.
    private var endings: [[[UInt8]]] = []

    /// - Parameter list: names in lower case.
    public init(_ list: [String]) {
        for text in list {
            let name = Array(text.utf8)
            if name.first == UInt8(ascii: "*") {
                let ending = Array(name.dropFirst().filter { !Self.isSeparator($0) }.reversed())
                guard let last = ending.first else { continue }
                if endings.isEmpty { endings = Array(repeating: [], count: Self.letterCount) }
                endings[Self.index(of: last)].append(ending)
            } else {
                if names.count <= name.count { names += Array(repeating: [], count: name.count + 1 - names.count) }
                names[name.count].append(name)
            }
        }
    }

    public var isEmpty: Bool { names.isEmpty && endings.isEmpty }

    /// Returns whether the list contains the name. Ignores case, and treats all characters other than letters and digits as one separator.
    public func contains(_ name: Span<UInt8>) -> Bool { hasWhole(name) || hasEnding(name) }

    public func contains(_ name: some Sequence<UInt8>) -> Bool { contains(Array(name).span) }

    /// Returns whether the field is part of the partition: a credential, except for tokens against forged requests that only an ending
    /// matches.
    func separates(_ name: Span<UInt8>) -> Bool { hasWhole(name) || hasEnding(name) && !Self.isForgeryToken(name) }

    /// Matches X-CSRF-Token, X-CSRFToken, X-XSRF-TOKEN, csrftoken and similar. They protect a session against requests of other sites and do
    /// not identify it. Many frameworks change them with each page.
    public static func isForgeryToken(_ name: Span<UInt8>) -> Bool {
        guard name.count >= 4 else { return false }
        for start in 0...name.count - 4 {
            let part = name.extracting(start..<start + 4)
            if part.equalsIgnoringCase("csrf") || part.equalsIgnoringCase("xsrf") { return true }
            if start + 7 <= name.count, name.extracting(start..<start + 7).equalsIgnoringCase("forgery") { return true }
        }
        return false
    }

    public func match(_ name: Span<UInt8>) -> Match { hasWhole(name) ? .whole : hasEnding(name) ? .ending : .none }

    private func hasWhole(_ name: Span<UInt8>) -> Bool {
        guard name.count < names.count else { return false }
        for known in names[name.count] where name.isReadAsName(known.span) { return true }
        return false
    }

    /// Returns whether the name ends like an entry with `*`. Fields of `KnownField` are matched as whole names only. Fields that browsers
    /// set (Fetch §2.2.2) do not identify their user.
    private func hasEnding(_ name: Span<UInt8>) -> Bool {
        guard !endings.isEmpty, !name.isEmpty else { return false }
        for ending in endings[Self.index(of: name[name.count - 1])] where Self.ends(name, with: ending) {
            return KnownField(name) == nil && !Self.isOfBrowser(name)
        }
        return false
    }

    /// - Parameter ending: reversed, last letter first.
    private static func ends(_ name: Span<UInt8>, with ending: [UInt8]) -> Bool {
        var index = name.count
        for byte in ending {
            repeat { index -= 1 } while index >= 0 && isSeparator(name[index])
            guard index >= 0, name[index].asciiLowercased == byte else { return false }
        }
        return true
    }

    private static func isOfBrowser(_ name: Span<UInt8>) -> Bool {
        // Scripts cannot set names with exactly this prefix. An upstream may read other spellings as this name.
        name.count > 4 && name.extracting(0..<4).equalsIgnoringCase("sec-")
    }

    private static let letterCount = 32
    private static func index(of byte: UInt8) -> Int { Int(byte) & (letterCount - 1) }
    private static func isSeparator(_ byte: UInt8) -> Bool { byte.asFieldNameByte == UInt8(ascii: "-") }
}
