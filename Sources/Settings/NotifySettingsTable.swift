// Settings of the webhooks and commands that are notified of outages.

import Notifications

extension CisternSettings {
    /// A webhook or a command.
    public struct Notify: SettingItem {
        /// Empty: `webhook` or `command`.
        public var name = ""
        public var urlFile = ""
        public var format = NotificationTarget.Format.json
        public var tokenFile = ""
        public var secretFile = ""
        public var caFile = ""
        public var command: [String] = []
        /// Empty for all.
        public var events: [String] = []
        public var apis: [String] = []
        /// Milliseconds.
        public var timeout = 10_000
        public var perHour = 12

        public init(shortForm: String) { urlFile = shortForm }

        public var shortForm: String { urlFile }

        /// Name in metrics, logs and commands.
        public var shownName: String { name.isEmpty ? (command.isEmpty ? "webhook" : "command") : name }

        private static let events = NotificationEvent.selectable.map(\.rawValue).joined(separator: ", ")

        public static let table: [Setting<Notify>] = [
            Setting(
                path: "name", binding: .text(\.name),
                help: "Name of the target in metrics and logs: letters, digits, - and _. Empty: webhook or command."),
            Setting(
                path: "url_file", binding: .text(\.urlFile),
                help: "File that contains the URL of the webhook, which may be a secret. It is never logged or shown."),
            Setting(
                path: "format", binding: .choice(\.format), help: "json: all fields. slack: a text, for Slack and compatible services."),
            Setting(
                path: "token_file", binding: .text(\.tokenFile),
                help: "File with a bearer token that is sent to the webhook. Empty for none."),
            Setting(
                path: "secret_file", binding: .text(\.secretFile),
                help: "File with the key of the HMAC-SHA256 in Cistern-Signature, at least 16 characters. Empty for no signature."),
            Setting(
                path: "ca_file", binding: .text(\.caFile),
                help: "CA certificates that verify the webhook's certificate, as a PEM file. Empty for those of the system."),
            Setting(
                path: "command", binding: .list(\.command),
                help: "A program with its arguments, instead of a webhook. The program is an absolute path, and runs without a shell."),
            Setting(
                path: "events", binding: .list(\.events),
                help: "Events of which the target is notified: \(events). Empty for all."),
            Setting(
                path: "apis", binding: .list(\.apis),
                help: "APIs of which the target is notified. Events of the whole process are always included. Empty for all."),
            Setting(
                path: "timeout", binding: .duration(\.timeout, 100...60_000),
                help: "Maximum time of an attempt. A command is killed after this time."),
            Setting(
                path: "per_hour", binding: .count(\.perHour, 1...1_000),
                help: "Maximum number of notifications about one kind of condition within an hour. One summary counts the others."),
        ]
    }
}

enum NotifySettingsTable {
    static let all: [Setting<CisternSettings>] = [
        Setting(
            path: "notify", binding: .items(\.notify),
            help:
                "Webhooks and commands that are notified of outages. An entry is a file with the URL of a webhook, or a group of settings.")
    ]
}
