// The operator's rules for request credentials by path (`credentials`), and which responses to requests with Authorization are shared (RFC
// 9111 §3.5).

import HTTPCore

public struct CredentialRules: Sendable, Equatable {
    /// Responses are equal for all users; there are no partitions.
    public var areIgnored = false
    /// Shareable responses to requests with Authorization are shared by all requests with Authorization.
    public var sharesPublic = false
    /// Tokens are verified: requests with tokens of one user share a partition. Index in the list of token rules; nil if off.
    public var tokens: Int?
    /// The user of the credentials is looked up at the upstream. Index in the list of lookup rules; nil if off.
    public var lookUp: Int?

    public init() {}

    /// True if credentials are mapped to users.
    public var mapsCredentialsToUsers: Bool { tokens != nil || lookUp != nil }

    var isSpecial: Bool { areIgnored || sharesPublic || mapsCredentialsToUsers }
}

extension CredentialRules: PathRules {
    /// Each rule lets requests share responses, so it is permissive.
    public func stricter(_ other: CredentialRules) -> CredentialRules { self == other ? self : CredentialRules() }
}

/// Credential rules by path.
public struct CredentialTable: Sendable {
    private let table: PathTable<CredentialRules>
    private let isSpecial: Bool
    private let hasExceptions: Bool

    public init(_ table: PathTable<CredentialRules> = PathTable(rest: CredentialRules())) {
        self.table = table
        isSpecial = table.contains(where: \.isSpecial)
        hasExceptions = !table.isUniform
    }

    /// nil if no path has special rules; this is the common case, and every hit calls this function. A rule that shares responses applies
    /// only if it holds for every reading of the path. Otherwise `/open/..%2fme` would share `/me` among all users. Paths with a control
    /// character or a double encoding are never shared.
    public func specialRules(for head: RequestHead) -> CredentialRules? {
        guard isSpecial else { return nil }
        let target = head.pathAndQuery
        let written = table.rulesAsWritten(for: target)
        guard written.isSpecial, hasExceptions, let readings = PathReadings(target) else { return written }
        return readings.isOpaque ? CredentialRules() : table.rules(for: target)
    }

    /// The rules of all paths.
    public var all: [CredentialRules] { table.all }

    /// True if the responses of any path are equal for all users.
    public var ignoresSome: Bool { table.contains(where: \.areIgnored) }
}

/// Which requests may receive the response to a request with Authorization.
public enum AuthorizedSharing: Sendable, Equatable {
    /// Requests with equal credentials.
    case own
    /// Other requests too, while the response is fresh or validated: it has only `s-maxage` or `must-revalidate`. As a rescue, its own user
    /// only.
    case whileValidated
    /// Other requests too: the response has `public`.
    case everybody

    /// RFC 9111 §3.5. A response that varies by Authorization, or is private, is never shared, whatever other directives it has.
    public init(_ response: Fields, _ control: ResponseCacheControl) {
        let varies = SelectingFields.varied(response).contains { $0.equalsIgnoringCase("authorization") }
        guard !control.isPrivate, !varies, Storing.mayShare(control) else {
            self = .own
            return
        }
        self = control.isPublic ? .everybody : .whileValidated
    }
}
