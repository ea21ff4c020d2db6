// Settings of credentials, of all paths and of each route.

import CachePolicy
import Identity
import ReverseProxy

public enum CredentialSettingsTable {
    /// `credentials: ignore` abbreviates `credentials: {partition: ignore}`.
    static let group = "credentials"
    static let shortForm = "credentials.partition"

    public static let all: [Setting<CisternSettings.Route>] =
        [
            Setting(
                path: "credentials.partition", binding: .choice(\.rules.credentials.areIgnored, [("fields", false), ("ignore", true)]),
                help:
                    "fields: each combination of credentials has a separate partition. ignore: responses are equal for all clients."
            ),
            Setting(
                path: "credentials.share_public", binding: .flag(\.rules.credentials.sharesPublic),
                help: "Responses that say public, s-maxage or must-revalidate are for all who send Authorization (RFC 9111, 3.5)."),
        ] + tokens + lookUp

    private static var lookUp: [Setting<CisternSettings.Route>] {
        let prefix = "credentials.identity.lookup."
        return [
            Setting(
                path: prefix + "path", binding: .text(\.rules.lookUp.path),
                help:
                    "Path that identifies the user of a token or cookie, such as /me. It is requested once for each. Empty: users are not looked up."
            ),
            Setting(
                path: prefix + "identity", binding: .list(\.rules.lookUp.pointers),
                help: "JSON Pointers into its response that together say who a user is and what that user may do."),
            Setting(
                path: prefix + "fields", binding: .list(\.rules.lookUp.fields),
                help: "Fields of its response that say so too, such as X-OAuth-Scopes."),
            Setting(
                path: prefix + "keep", binding: .duration(\.rules.lookUp.keep, 10_000...86_400_000),
                help: "How long its word counts; so long a revoked token may see its user's copies."),
        ]
    }

    private static var tokens: [Setting<CisternSettings.Route>] {
        let prefix = "credentials.identity.jwt."
        return [
            Setting(
                path: prefix + "keys", binding: .text(\.rules.tokens.keys),
                help: "A JWK Set, as a file or a URL: requests with signed tokens of one user share a partition. Empty for none."),
            Setting(
                path: prefix + "ca_file", binding: .text(\.rules.tokens.authorities),
                help: "Certificates that the one of that URL is checked against, instead of the system's."),
            Setting(
                path: prefix + "issuer", binding: .list(\.rules.tokens.settings.issuers), help: "A token must be of one of these (iss)."),
            Setting(
                path: prefix + "audience", binding: .list(\.rules.tokens.settings.audiences),
                help: "A token must be for one of these (aud)."),
            Setting(
                path: prefix + "subject", binding: .text(\.rules.tokens.settings.subject),
                help: "The claim that says whom a token belongs to."),
            Setting(
                path: prefix + "type", binding: .list(\.rules.tokens.settings.types),
                help: "A token must have one of these types (typ), such as at+jwt; empty for any."),
            Setting(
                path: prefix + "leeway", binding: .duration(\.rules.tokens.settings.leeway, 0...600_000),
                help: "How far the issuer's clock may be from ours."),
            Setting(
                path: prefix + "rescue_expired", binding: .duration(\.rules.tokens.settings.rescuesExpired, 0...86_400_000),
                help: "How long after its end a token still has its user's copies while the upstream fails; 0 for not at all."),
            Setting(
                path: prefix + "ignore_claims", binding: .list(\.rules.tokens.settings.volatileClaims),
                help: "Claims that a refresh changes, beside exp, iat, nbf, jti, auth_time, nonce, at_hash and sid."),
        ]
    }
}
