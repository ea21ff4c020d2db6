// Settings about credentials, declared once for all paths and for a route.

enum CredentialSettingsTable {
    /// `credentials: ignore` abbreviates `credentials: {partition: ignore}`.
    static let group = "credentials"
    static let shortForm = "credentials.partition"

    /// - Parameter group: where the values are stored.
    static func all<Root>(_ group: WritableKeyPath<Root, CisternSettings.Credentials>) -> [Setting<Root>] {
        [
            Setting(
                path: "credentials.partition", binding: .choice(group.appending(path: \.partition), ["fields", "ignore"]),
                help:
                    "fields: each combination of credentials has a partition of its own. ignore: responses are the same for all, whoever asks."
            ),
            Setting(
                path: "credentials.share_public", binding: .flag(group.appending(path: \.sharePublic)),
                help: "Responses that say public, s-maxage or must-revalidate are for all who send Authorization (RFC 9111, 3.5)."),
        ] + tokens(group.appending(path: \.identity.jwt)) + lookUp(group.appending(path: \.identity.lookup))
    }

    private static func lookUp<Root>(_ group: WritableKeyPath<Root, CisternSettings.Credentials.LookUp>) -> [Setting<Root>] {
        let prefix = "credentials.identity.lookup."
        return [
            Setting(
                path: prefix + "path", binding: .text(group.appending(path: \.path)),
                help:
                    "What the upstream is asked for once for each token or cookie, to know whose it is, such as /me. Empty for not at all."),
            Setting(
                path: prefix + "identity", binding: .list(group.appending(path: \.identity)),
                help: "JSON Pointers into its response that together say who a user is and what that user may do."),
            Setting(
                path: prefix + "fields", binding: .list(group.appending(path: \.fields)),
                help: "Fields of its response that say so too, such as X-OAuth-Scopes."),
            Setting(
                path: prefix + "keep", binding: .duration(group.appending(path: \.keep), 10_000...86_400_000),
                help: "How long its word counts; so long a revoked token may see its user's copies."),
        ]
    }

    private static func tokens<Root>(_ group: WritableKeyPath<Root, CisternSettings.Credentials.Tokens>) -> [Setting<Root>] {
        let prefix = "credentials.identity.jwt."
        return [
            Setting(
                path: prefix + "keys", binding: .text(group.appending(path: \.keys)),
                help: "A JWK Set, as a file or a URL: requests whose signed tokens belong to one user share a partition. Empty for none."),
            Setting(
                path: prefix + "ca_file", binding: .text(group.appending(path: \.caFile)),
                help: "Certificates that the one of that URL is checked against, instead of the system's."),
            Setting(
                path: prefix + "issuer", binding: .list(group.appending(path: \.issuer)), help: "A token must be of one of these (iss)."),
            Setting(
                path: prefix + "audience", binding: .list(group.appending(path: \.audience)),
                help: "A token must be for one of these (aud)."),
            Setting(
                path: prefix + "subject", binding: .text(group.appending(path: \.subject)),
                help: "The claim that says whom a token belongs to."),
            Setting(
                path: prefix + "type", binding: .list(group.appending(path: \.type)),
                help: "A token must have one of these types (typ), such as at+jwt; empty for any."),
            Setting(
                path: prefix + "leeway", binding: .duration(group.appending(path: \.leeway), 0...600_000),
                help: "How far the issuer's clock may be from ours."),
            Setting(
                path: prefix + "rescue_expired", binding: .duration(group.appending(path: \.rescueExpired), 0...86_400_000),
                help: "How long after its end a token still has its user's copies while the upstream fails; 0 for not at all."),
            Setting(
                path: prefix + "ignore_claims", binding: .list(group.appending(path: \.ignoreClaims)),
                help: "Claims that a refresh changes, beside exp, iat, nbf, jti, auth_time, nonce, at_hash and sid."),
        ]
    }
}
