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
                    ConfigurationMistake(file: file, line: node.line, sentence: "\(name) must be a list of words or of groups of settings"))
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
                help: "Whether each connection must begin with the PROXY protocol, version 1 or 2, and come from trusted_proxies."),
            Setting(path: "allow", binding: .list(\.access.allow), help: "Replaces access.allow for this address."),
            Setting(path: "deny", binding: .list(\.access.deny), help: "Replaces access.deny for this address."),
            Setting(
                path: "h2c", binding: .flag(\.h2c), help: "Whether HTTP/2 without TLS is accepted, from clients with prior knowledge."),
            Setting(path: "http2", binding: .flag(\.http2), help: "Whether HTTP/2 is offered over TLS (ALPN)."),
            Setting(
                path: "client_verify", binding: .choice(\.clientVerify, takesEmpty: true),
                help: "Replaces tls.client_verify for this address. Empty: the certificate's setting applies."),
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
                help: "PEM file with the certificate, followed by the certificates of its issuers (fullchain.pem)."),
            Setting(path: "key", binding: .text(\.key), help: "PEM file with the private key. Empty if it is in the certificate's file."),
            Setting(
                path: "client_ca", binding: .text(\.clientCA),
                help: "Replaces tls.client_ca for the certificate's names. Empty: tls.client_ca applies."),
            Setting(
                path: "client_verify", binding: .choice(\.clientVerify, takesEmpty: true),
                help: "Replaces tls.client_verify for the certificate's names. Empty: tls.client_verify applies."),
        ]
    }
}
