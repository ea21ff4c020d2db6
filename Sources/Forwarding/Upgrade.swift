// Protocol upgrades (RFC 9110 §7.8): which offered protocols are forwarded, and whether a response accepts one of them.

import HTTPCore

public enum Upgrade {
    /// Returns the permitted protocols as the value of an Upgrade field; nil if there are none, or none is offered.
    /// - Parameter allowed: names in lower case, without versions.
    public static func offered(by head: RequestHead, allowed: [[UInt8]]) -> [UInt8]? {
        // The response to HEAD has no content, so no protocol could follow a 101.
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

    /// Returns whether a 101 selects exactly one of the offered protocols.
    public static func isAccepted(by response: ResponseHead, offered request: Fields) -> Bool {
        let offered = FieldLists.members(of: .upgrade, in: request)
        let chosen = FieldLists.members(of: .upgrade, in: response.fields, limit: 2)
        return chosen.count == 1 && offered.contains { $0.equalsIgnoringCase(chosen[0]) }
    }
}
