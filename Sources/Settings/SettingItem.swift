// One of several under one name, which has settings of its own: in short one word, in full a mapping.

package protocol SettingItem: Sendable, Equatable {
    static var table: [Setting<Self>] { get }
    /// As it is written in one word.
    init(word: String)
    /// What says all of it where the rest stands at its default.
    var word: String { get }
}

extension SettingItem {
    /// As it would be written in the file.
    var text: String {
        let plain = Self(word: word)
        guard self != plain else { return "\"\(word)\"" }
        let changed = Self.table.filter { $0.text(in: self) != $0.text(in: Self(word: "")) }
        return "{" + changed.map { "\($0.path): \($0.text(in: self))" }.joined(separator: ", ") + "}"
    }
}

extension CisternSettings {
    /// An address to listen on, and what is spoken there.
    package struct Listener: SettingItem, ExpressibleByStringLiteral {
        package var address: String
        package var proxyProtocol = false
        package var access = Access()
        package var h2c = false

        package init(word: String) { address = word }
        package init(stringLiteral word: String) { address = word }

        package var word: String { address }

        package static let table: [Setting<Listener>] = [
            Setting(path: "address", binding: .text(\.address), help: "[http://]HOST:PORT, [IPV6]:PORT, :PORT or unix:/path."),
            Setting(
                path: "proxy_protocol", binding: .flag(\.proxyProtocol),
                help: "Every connection begins with the PROXY protocol, version 1 or 2, and comes from one of trusted_proxies."),
            Setting(path: "allow", binding: .list(\.access.allow), help: "As access.allow, in its place."),
            Setting(path: "deny", binding: .list(\.access.deny), help: "As access.deny, in its place."),
            Setting(
                path: "h2c", binding: .flag(\.h2c), help: "Take HTTP/2 in clear too, from clients that begin with it (prior knowledge)."),
        ]
    }
}
