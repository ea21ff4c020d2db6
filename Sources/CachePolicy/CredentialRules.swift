// What the operator says of the credentials of some paths' requests (`credentials`), and what is shared although it was asked for with
// Authorization (RFC 9111 §3.5).

import HTTPCore

public struct CredentialRules: Sendable, Equatable {
    /// Responses are the same for all, whoever asks: there are no partitions.
    public var areIgnored = false
    /// What a response to a request with Authorization lets others have, all have who send Authorization.
    public var sharesPublic = false
    /// Tokens are looked at: requests whose tokens belong to one user have one partition. By the rules in that place of a list.
    public var tokens: Int?
    /// The upstream is asked whom credentials belong to. By the rules in that place of another list.
    public var lookUp: Int?

    public init() {}

    /// Whether it is looked at which credentials have one user.
    public var looksAtUsers: Bool { tokens != nil || lookUp != nil }

    var isSpecial: Bool { areIgnored || sharesPublic || looksAtUsers }
}

extension CredentialRules: PathRules {
    /// Each of them lets requests share a response, so it opens.
    public func stricter(_ other: CredentialRules) -> CredentialRules { self == other ? self : CredentialRules() }
}

/// The rules by path.
public struct CredentialTable: Sendable {
    private let table: PathTable<CredentialRules>
    private let isSpecial: Bool
    private let hasExceptions: Bool

    public init(_ table: PathTable<CredentialRules> = PathTable(rest: CredentialRules())) {
        self.table = table
        isSpecial = table.contains(where: \.isSpecial)
        hasExceptions = !table.isUniform
    }

    /// nil where no path has any: almost always, and a hit asks for them. What lets requests share a response holds only if it does for every reading of
    /// the path: else `/open/..%2fme` would have everybody's `/me`. A path with a control character or a double encoding is shared by nobody.
    public func specialRules(for head: RequestHead) -> CredentialRules? {
        guard isSpecial else { return nil }
        let target = head.pathAndQuery
        let written = table.rulesAsWritten(for: target)
        guard written.isSpecial, hasExceptions, let readings = PathReadings(target) else { return written }
        return readings.isOpaque ? CredentialRules() : table.rules(for: target)
    }

    public func areIgnored(for head: RequestHead) -> Bool { specialRules(for: head)?.areIgnored ?? false }

    /// Whether some path's responses are for all, whoever asks.
    public var ignoresSome: Bool { table.contains(where: \.areIgnored) }
}

/// Who may have the response to a request with Authorization.
public enum AuthorizedSharing: Sendable, Equatable {
    /// Those with the same credentials.
    case own
    /// Others too, as long as it is fresh or validated: `s-maxage` or `must-revalidate` alone. In a rescue only its own user.
    case whileValidated
    /// Others too: it said `public`.
    case everybody

    /// RFC 9111 §3.5. What depends on the Authorization field, or is private, is for nobody else, whatever else it says.
    public init(_ response: Fields, _ control: ResponseCacheControl) {
        let varies = FieldLists.contains(.vary, in: response) { $0.equalsIgnoringCase("authorization") }
        guard !control.isPrivate, !varies, Storing.mayShare(control) else {
            self = .own
            return
        }
        self = control.isPublic ? .everybody : .whileValidated
    }
}
