// The cookie of a session with the page of the state: for the administrator's pages alone.

public enum SessionCookie {
    public static let name = "cistern-session"
    /// What the paths of sessions begin with.
    public static let path = "/-/status/"

    private static let start = Array("\(name)=".utf8)

    /// What cookies of that name say, in the order in which they came.
    public static func values(in fields: Fields) -> [String] {
        fields.all(.cookie).flatMap { line in
            line.split(separator: UInt8(ascii: ";"), maxSplits: FieldListLimit.members).map(\.trimmed).filter { $0.starts(with: start) }
                .map { String(decoding: $0.dropFirst(start.count), as: UTF8.self) }
        }
    }

    /// The fields without it, for a request that goes on to others; nil where it is not among them. Browsers send it with these paths only, so no
    /// other is looked at.
    public static func removed(from fields: Fields, target: ArraySlice<UInt8>) -> Fields? {
        // Of almost every target the second byte says enough.
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
