// Settings of the fleet and its Redis servers.

import ResponseCache

enum SharingSettingsTable {
    private static let day = 86_400_000

    /// All need a restart, because the fleet level belongs to the process and always has operations under way.
    static let all: [Setting<CisternSettings>] = [
        setting(
            "share.servers", .list(\.share.servers),
            "Redis or Valkey, through which nodes share what they store and purge: redis://name:6379, rediss:// by TLS, a Unix socket. One "
                + "address that leads to the primary, or several servers of one Cluster. redis://name:6379/3 is database 3. Empty: nothing is "
                + "shared."),
        setting(
            "share.fleet", .text(\.share.fleet),
            "Name of the fleet of nodes that share; part of every key in the engine: letters, digits, - and _. Empty: main, with a warning at the "
                + "start."),
        setting(
            "share.secret_file", .text(\.share.secretFile),
            "The secret of the fleet's nodes, at least 32 characters on a line. While it is changed two: the first writes, both "
                + "read."),
        setting("share.user", .text(\.share.user), "The user there; empty: the one that needs no name."),
        setting(
            "share.password_file", .text(\.share.passwordFile),
            "File with the user's password in its first line, read for each connection. A second line names the user instead of share.user. Empty: "
                + "no password is sent."),
        setting("share.tls.ca_file", .text(\.share.caFile), "Certificates that the servers' are checked against, with rediss://."),
        setting("share.tls.certificate", .text(\.share.certificate), "Our certificate, as a PEM file."),
        setting("share.tls.key", .text(\.share.key), "The certificate's key; empty: in the file of the certificate."),
        setting(
            "share.keep", .duration(\.share.keep, 60_000...(365 * day)),
            "For how long a response stays there, and what is said of purges, whatever it says of itself."),
        setting(
            "share.blind_limit", .duration(\.share.blindLimit, 0...day),
            "While a node cannot see what others purge, a copy counts as fresh for so long after it was stored or confirmed. 0: for as long as it "
                + "says itself."),
        setting(
            "share.after_gap", .choice(\.share.afterGap),
            "After lost purges of other nodes: stored responses count as stale, or are removed."),
        setting(
            "share.content_limit", .size(\.share.contentLimit, 1_024...(4 << 20)), "The longest content that is shared."),
    ]

    private static func setting(
        _ path: String, _ binding: Setting<CisternSettings>.Binding, _ help: String
    ) -> Setting<CisternSettings> {
        Setting(path: path, binding: binding, help: help, needsRestart: true)
    }
}
