// Which request fields count, by a list of names. `*` at the beginning of one stands for any beginning, since there are more names of credentials than
// anybody can list.

import HTTPCore
import WellKnownNames

public struct CredentialNames: Sendable, Equatable {
    /// How a name is in the list.
    public enum Match {
        case none, ending, whole
    }

    public static let wellKnown = CredentialNames(WellKnownNames.credentialFields)
    static let wellKnownGroups = CredentialNames(WellKnownNames.groupCredentials)

    /// At the place of their length.
    private var names: [[[UInt8]]] = []
    /// What stands behind the `*`, without separators, the last letter first, at the place of that letter.
    private var endings: [[[UInt8]]] = []

    /// - Parameter list: in lower case.
    public init(_ list: [String]) {
        for text in list {
            let name = Array(text.utf8)
            if name.first == UInt8(ascii: "*") {
                let ending = Array(name.dropFirst().filter { !Self.isSeparator($0) }.reversed())
                guard let last = ending.first else { continue }
                if endings.isEmpty { endings = Array(repeating: [], count: Self.letterCount) }
                endings[Self.place(of: last)].append(ending)
            } else {
                if names.count <= name.count { names += Array(repeating: [], count: name.count + 1 - names.count) }
                names[name.count].append(name)
            }
        }
    }

    public var isEmpty: Bool { names.isEmpty && endings.isEmpty }

    /// Ignores case. All characters that are no letters or digits are one separator.
    public func contains(_ name: Span<UInt8>) -> Bool { hasWhole(name) || hasEnding(name) }

    public func contains(_ name: some Sequence<UInt8>) -> Bool { contains(Array(name).span) }

    public func match(_ name: Span<UInt8>) -> Match { hasWhole(name) ? .whole : hasEnding(name) ? .ending : .none }

    private func hasWhole(_ name: Span<UInt8>) -> Bool {
        guard name.count < names.count else { return false }
        for known in names[name.count] where name.isReadAsName(known.span) { return true }
        return false
    }

    /// Fields that have a number are known for what they are, and those that browsers make (Fetch §2.2.2) say nothing of their user.
    private func hasEnding(_ name: Span<UInt8>) -> Bool {
        guard !endings.isEmpty, !name.isEmpty else { return false }
        for ending in endings[Self.place(of: name[name.count - 1])] where Self.ends(name, with: ending) {
            return KnownField(name) == nil && !Self.isOfBrowser(name)
        }
        return false
    }

    /// - Parameter ending: the last letter first.
    private static func ends(_ name: Span<UInt8>, with ending: [UInt8]) -> Bool {
        var place = name.count
        for byte in ending {
            repeat { place -= 1 } while place >= 0 && isSeparator(name[place])
            guard place >= 0, name[place].asciiLowercased == byte else { return false }
        }
        return true
    }

    private static func isOfBrowser(_ name: Span<UInt8>) -> Bool {
        // Scripts cannot set names with exactly this prefix; an upstream may read other spellings as the same name.
        name.count > 4 && name.extracting(0..<4).equalsIgnoringCase("sec-")
    }

    private static let letterCount = 32
    private static func place(of byte: UInt8) -> Int { Int(byte) & (letterCount - 1) }
    private static func isSeparator(_ byte: UInt8) -> Bool { byte.asFieldNameByte == UInt8(ascii: "-") }
}
