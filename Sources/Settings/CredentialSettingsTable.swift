// The settings of credentials, which are the same for all paths and for a route.

enum CredentialSettingsTable {
    /// `credentials: ignore` is short for `credentials: {partition: ignore}`.
    static let group = "credentials"
    static let shortForm = "credentials.partition"

    /// - Parameter group: where they are.
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
        ]
    }
}
