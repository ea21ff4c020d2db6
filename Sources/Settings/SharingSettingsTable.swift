// Settings of the fleet and its Redis servers.

enum SharingSettingsTable {
    private static let day = 86_400_000

    /// All need a restart, because the fleet level belongs to the process and always has operations under way.
    static let all: [Setting<CisternSettings>] = [
        setting(
            "share.servers", .list(\.share.servers),
            "Redis or Valkey servers through which nodes share responses and purges: redis://name:6379, rediss:// for TLS, or a Unix socket. One "
                + "address of the primary, or several servers of one Cluster. redis://name:6379/3 selects database 3. Empty: nothing is "
                + "shared."),
        setting(
            "share.fleet", .text(\.share.fleet),
            "Name of the fleet, part of every key in Redis: letters, digits, - and _. Empty: main, with a warning at the "
                + "start."),
        setting(
            "share.secret_file", .text(\.share.secretFile),
            "File with the secret of all nodes, at least 32 characters in a line. To change it, use two lines: the first encrypts, both "
                + "decrypt."),
        setting("share.user", .text(\.share.user), "User name in Redis. Empty: the user named default."),
        setting(
            "share.password_file", .text(\.share.passwordFile),
            "File with the user's password in its first line, read for each connection. An optional second line replaces share.user. Empty: "
                + "no password is sent."),
        setting("share.tls.ca_file", .text(\.share.caFile), "CA certificates that verify the servers' certificates, with rediss://."),
        setting("share.tls.certificate", .text(\.share.certificate), "Client certificate for the servers, as a PEM file."),
        setting(
            "share.tls.key", .text(\.share.key), "Private key of the certificate, as a PEM file. Empty: it is in the certificate's file."),
        setting(
            "share.keep", .duration(\.share.keep, 60_000...(365 * day)),
            "Time for which Redis keeps a response or a purge, regardless of the response's lifetime."),
        setting(
            "share.blind_limit", .duration(\.share.blindLimit, 0...day),
            "Maximum freshness, after storing or validation, while a node cannot read the purges of other nodes. 0: the response's own "
                + "lifetime applies."),
        setting(
            "share.after_gap", .choice(\.share.afterGap),
            "After purges of other nodes were lost: whether stored responses become stale or are removed."),
        setting(
            "share.content_limit", .size(\.share.contentLimit, 1_024...(4 << 20)), "Maximum size of shared content."),
    ]

    private static func setting(
        _ path: String, _ binding: Setting<CisternSettings>.Binding, _ help: String
    ) -> Setting<CisternSettings> {
        Setting(path: path, binding: binding, help: help, needsRestart: true)
    }
}
