// Changing to another protocol on the same connection (RFC 9110 §7.8): which of those that a request offers are let through, and whether a response
// accepts one of them.

import HTTPCore

public enum Upgrade {
    /// The protocols that are let through, as the value of an Upgrade field; nil where there is none, or nothing is offered.
    /// - Parameter allowed: names in small letters, without versions.
    public static func offered(by head: RequestHead, allowed: [[UInt8]]) -> [UInt8]? {
        // HEAD has a response without content: nothing could follow its 101.
        guard head.version == .http11, head.method != .head, head.contains(.upgrade), head.fields.connectionNames("upgrade"),
            !FieldListLimit.isExceeded(by: .upgrade, in: head.fields)
        else { return nil }
        let offered = FieldLists.members(of: .upgrade, in: head.fields).filter { isNamed($0, in: allowed) }
        return offered.isEmpty ? nil : Array(offered.joined(separator: Array(", ".utf8)))
    }

    private static func isNamed(_ member: ArraySlice<UInt8>, in names: [[UInt8]]) -> Bool {
        let name = member.prefix { $0 != UInt8(ascii: "/") }
        return names.contains { $0[...].equalsIgnoringCase(name) }
    }

    /// Whether a 101 changes to one of the protocols that were offered to its sender, and to no other.
    public static func isAccepted(by response: ResponseHead, offered request: Fields) -> Bool {
        let offered = FieldLists.members(of: .upgrade, in: request)
        let chosen = FieldLists.members(of: .upgrade, in: response.fields, limit: 2)
        return chosen.count == 1 && offered.contains { $0.equalsIgnoringCase(chosen[0]) }
    }
}
