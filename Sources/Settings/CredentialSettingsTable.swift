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
                    "fields: each combination of credentials has a separate partition. ignore: all clients share stored responses."
            ),
            Setting(
                path: "credentials.share_public", binding: .flag(\.rules.credentials.sharesPublic),
                help: "Whether all users with Authorization share responses with public, s-maxage or must-revalidate (RFC 9111, 3.5)."),
        ] + tokens + lookUp

    private static var lookUp: [Setting<CisternSettings.Route>] {
        let prefix = "credentials.identity.lookup."
        return [
            Setting(
                path: prefix + "path", binding: .text(\.rules.lookUp.path),
                help:
                    "Upstream path that identifies the user, such as /me. It is requested for each token or cookie, and without it. Empty: users are not looked up."
            ),
            Setting(
                path: prefix + "identity", binding: .list(\.rules.lookUp.pointers),
                help: "JSON Pointers into the response of lookup.path. Their values together must identify the user and the user's rights."),
            Setting(
                path: prefix + "fields", binding: .list(\.rules.lookUp.fields),
                help: "Response fields of lookup.path that also identify the user or the user's rights, such as X-OAuth-Scopes."),
            Setting(
                path: prefix + "keep", binding: .duration(\.rules.lookUp.keep, 10_000...86_400_000),
                help: "How long the lookup result is cached. A revoked token may read its user's stored responses for up to this long."),
        ]
    }

    private static var tokens: [Setting<CisternSettings.Route>] {
        let prefix = "credentials.identity.jwt."
        return [
            Setting(
                path: prefix + "keys", binding: .text(\.rules.tokens.keys),
                help: "JWK Set, as a file or a URL. Requests with verified tokens of one user share a partition. Empty for none."),
            Setting(
                path: prefix + "ca_file", binding: .text(\.rules.tokens.authorities),
                help: "CA certificates that verify the certificate of the keys' URL, instead of the system's."),
            Setting(
                path: prefix + "issuer", binding: .list(\.rules.tokens.settings.issuers), help: "Accepted issuers of tokens (iss)."),
            Setting(
                path: prefix + "audience", binding: .list(\.rules.tokens.settings.audiences),
                help: "Accepted audiences of tokens (aud)."),
            Setting(
                path: prefix + "subject", binding: .text(\.rules.tokens.settings.subject),
                help: "Claim that identifies the user of a token."),
            Setting(
                path: prefix + "type", binding: .list(\.rules.tokens.settings.types),
                help: "Accepted types of tokens (typ), such as at+jwt. Empty for any."),
            Setting(
                path: prefix + "leeway", binding: .duration(\.rules.tokens.settings.leeway, 0...600_000),
                help: "Maximum difference between the issuer's clock and Cistern's."),
            Setting(
                path: prefix + "rescue_expired", binding: .duration(\.rules.tokens.settings.rescuesExpired, 0...86_400_000),
                help: "Time for which an expired token still gets its user's stored responses while the upstream fails. 0 disables this."),
            Setting(
                path: prefix + "ignore_claims", binding: .list(\.rules.tokens.settings.volatileClaims),
                help: "Claims that change when a token is refreshed, besides exp, iat, nbf, jti, auth_time, nonce, at_hash and sid."),
        ]
    }
}
