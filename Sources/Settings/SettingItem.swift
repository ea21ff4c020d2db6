// An item of a list that has several settings. It is written as a word or as a mapping.

import Downstream

public protocol SettingItem: Sendable, Equatable {
    static var table: [Setting<Self>] { get }
    /// Creates the item from its short form.
    init(shortForm: String)
    /// The short form; complete if all settings that it does not express have their defaults.
    var shortForm: String { get }
}

extension SettingItem {
    /// The item as in the configuration file.
    var text: String {
        let plain = Self(shortForm: shortForm)
        guard self != plain else { return "\"\(shortForm)\"" }
        let changed = Self.table.filter { $0.text(in: self) != $0.text(in: Self(shortForm: "")) }
        return "{" + changed.map { "\($0.path): \($0.text(in: self))" }.joined(separator: ", ") + "}"
    }

    /// Reads the items of a list. An item is a word or a mapping with settings.
    /// - Parameter name: the setting, for messages.
    static func read(_ nodes: [YAMLNode], name: String, file: String) -> (items: [Self], mistakes: [ConfigurationMistake]) {
        var mistakes: [ConfigurationMistake] = []
        let items = nodes.compactMap { node -> Self? in
            switch node {
            case .scalar(let shortForm, _): return Self(shortForm: shortForm)
            case .mapping:
                var reading = GroupReading<Self>(table: table, root: Self(shortForm: ""), name: "\(name).", file: file)
                reading.read(node, prefix: "")
                mistakes += reading.mistakes
                return reading.root
            case .sequence:
                mistakes.append(
                    ConfigurationMistake(file: file, line: node.line, sentence: "\(name) takes a list of words, or of settings"))
                return nil
            }
        }
        return (items, mistakes)
    }
}

extension CisternSettings {
    /// An address to listen on, with its protocols.
    public struct Listener: SettingItem, ExpressibleByStringLiteral {
        public var address: String
        public var proxyProtocol = false
        public var access = Access()
        public var h2c = false
        public var http2 = true
        public var clientVerify: ClientVerification?

        public init(shortForm: String) { address = shortForm }
        public init(stringLiteral shortForm: String) { address = shortForm }

        public var shortForm: String { address }

        public static let table: [Setting<Listener>] = [
            Setting(
                path: "address", binding: .text(\.address),
                help: "HOST:PORT, [IPV6]:PORT, :PORT, unix:/path or systemd:NAME; with https:// before it for TLS."),
            Setting(
                path: "proxy_protocol", binding: .flag(\.proxyProtocol),
                help: "Every connection begins with the PROXY protocol, version 1 or 2, and comes from one of trusted_proxies."),
            Setting(path: "allow", binding: .list(\.access.allow), help: "As access.allow, in its place."),
            Setting(path: "deny", binding: .list(\.access.deny), help: "As access.deny, in its place."),
            Setting(
                path: "h2c", binding: .flag(\.h2c), help: "Take HTTP/2 in clear too, from clients that begin with it (prior knowledge)."),
            Setting(path: "http2", binding: .flag(\.http2), help: "Over TLS, offer HTTP/2 to clients that ask for it (ALPN)."),
            Setting(
                path: "client_verify", binding: .choice(\.clientVerify, takesEmpty: true),
                help: "As tls.client_verify, here; empty for what holds for the certificate."),
        ]
    }
    /// A certificate with its private key, used for the host names in the certificate.
    public struct Certificate: SettingItem {
        public var certificate = ""
        public var key = ""
        public var clientCA = ""
        public var clientVerify: ClientVerification?

        /// - Parameter shortForm: `certificate:key`, or a file that contains both.
        public init(shortForm: String) {
            let files = shortForm.split(separator: ":", maxSplits: 1).map(String.init)
            certificate = files.first ?? ""
            key = files.dropFirst().first ?? ""
        }

        public var shortForm: String { key.isEmpty ? certificate : certificate + ":" + key }

        public static let table: [Setting<Certificate>] = [
            Setting(
                path: "certificate", binding: .text(\.certificate),
                help: "A PEM file: the certificate, and those of its issuers behind it (fullchain.pem)."),
            Setting(path: "key", binding: .text(\.key), help: "The PEM file of its key; empty where the same file has it."),
            Setting(path: "client_ca", binding: .text(\.clientCA), help: "As tls.client_ca, for its names; empty for that."),
            Setting(
                path: "client_verify", binding: .choice(\.clientVerify, takesEmpty: true),
                help: "As tls.client_verify, for its names; empty for that."),
        ]
    }
}
