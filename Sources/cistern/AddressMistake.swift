// Sentences about wrong listening addresses. They do not repeat secrets.

import Downstream
import Glibc
import HTTPCore

enum AddressMistake {
    private static let forms = "HOST:PORT, [IPV6]:PORT, :PORT, unix:/path or systemd:NAME, with numbers for hosts"

    /// Returns what is wrong with an address, as a sentence that follows the setting's name; nil if it is valid.
    static func sentence(_ text: String) -> String? {
        guard ListenerSettings(text) == nil else { return nil }
        if let sentence = tooLong(text) { return sentence }
        let shown = UpstreamURL.shown(text)
        return "\"\(shown)\" \(clause(text, shown))"
    }

    /// Returns nil unless the path of a Unix socket is too long.
    static func tooLong(_ address: String) -> String? {
        let count = address.utf8.count - 5
        guard address.hasPrefix("unix:"), count > ListenAddress.unixPathLimit else { return nil }
        return "the path of a Unix socket can have at most \(ListenAddress.unixPathLimit) bytes, but \(address.dropFirst(5)) has \(count)"
    }

    private static func clause(_ text: String, _ shown: String) -> String {
        if text.isEmpty { return "is empty: an address is \(forms)" }
        if text == "unix:" { return "has no path after unix:" }
        if text.hasPrefix("systemd:") { return "has no valid name of a socket after systemd:" }
        if text.contains("@") { return "contains a user name or password, which an address must not have" }
        var rest = text[...]
        if let scheme = text.firstRange(of: "://") {
            let name = text[..<scheme.lowerBound].lowercased()
            guard name == "http" || name == "https" else { return "has the scheme \(name), but only http and https are possible" }
            rest = text[scheme.upperBound...]
            if rest.hasPrefix("unix:") { return "has http:// before unix:, which is not possible" }
        }
        if rest.hasPrefix("/") { return "is a path; did you mean unix:\(shown)?" }
        if rest.contains("?") { return "contains a query, which an address must not have" }
        if rest.contains("/") { return "contains a path, but an address is only a host and a port" }
        return numbers(rest)
    }

    /// - Parameter text: host and port.
    private static func numbers(_ text: Substring) -> String {
        if text.utf8.allSatisfy({ $0.isASCIIDigit }) {
            return ListenAddress(":\(text)") == nil ? "has a port outside 0 to 65535" : "is only a port; did you mean :\(text)?"
        }
        var address = in6_addr()
        if !text.hasPrefix("["), inet_pton(AF_INET6, String(text), &address) == 1 {
            return "is an IPv6 address without brackets and port, as in [\(text)]:8080"
        }
        guard let colon = text.lastIndex(of: ":"), !text[colon...].contains("]") else {
            let isHost = ListenAddress("\(text):8080") != nil
            return isHost ? "has no port; did you mean \(text):8080?" : "is not an address: \(forms)"
        }
        if let clause = PortMistake.clause(text[text.index(after: colon)...], least: 0) { return clause }
        let host = text[..<colon]
        if host.contains(":") { return "is not a valid IPv6 address, as in [::1]:8080" }
        let isNumber = host.utf8.allSatisfy { $0.isASCIIDigit || $0 == UInt8(ascii: ".") }
        let example = "such as 127.0.0.1\(text[colon...])"
        return isNumber ? "is not a valid IPv4 address, \(example)" : "has a host name: give an address of this machine, \(example)"
    }
}
