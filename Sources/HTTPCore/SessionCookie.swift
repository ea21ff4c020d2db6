// The session cookie of the status page, used by the administrator's pages only.

public enum SessionCookie {
    public static let name = "cistern-session"
    /// Prefix of the paths of sessions.
    public static let path = "/-/status/"

    private static let start = Array("\(name)=".utf8)

    /// Returns the values of all cookies with this name, in order.
    public static func values(in fields: Fields) -> [String] {
        fields.all(.cookie).flatMap { line in
            line.split(separator: UInt8(ascii: ";"), maxSplits: FieldListLimit.members).map(\.trimmed).filter { $0.starts(with: start) }
                .map { String(decoding: $0.dropFirst(start.count), as: UTF8.self) }
        }
    }

    /// Returns the fields without the cookie, for a request that is forwarded; nil if the cookie is absent. Browsers send it with paths of
    /// sessions only, so other paths are not examined.
    public static func removed(from fields: Fields, target: ArraySlice<UInt8>) -> Fields? {
        // For nearly all targets, the second byte is sufficient.
        guard target.count > path.utf8.count, target[target.startIndex + 1] == UInt8(ascii: "-"), target.starts(with: path.utf8),
            fields.contains(.cookie), !values(in: fields).isEmpty
        else { return nil }
        var kept = fields
        kept.remove(.cookie)
        for line in fields.all(.cookie) {
            let others = line.split(separator: UInt8(ascii: ";")).filter { !$0.trimmed.starts(with: start) }
            let value = Array(others.joined(separator: [UInt8(ascii: ";")]))[...].trimmed
            if !value.isEmpty { kept.append(.cookie, Array(value)) }
        }
        return kept
    }
}
