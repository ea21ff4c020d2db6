// Parses the upstream's base URL. Each mistake has a sentence, which does not repeat secrets.

import Glibc
import HTTPCore
import Settings

struct UpstreamURL {
    /// What is wrong, as a clause that follows the setting's name.
    struct Mistake: Error, Equatable {
        let clause: String
    }

    let isTLS: Bool
    let host: String
    let port: UInt16
    /// Without a final slash.
    let path: String

    /// Maximum length of the path in bytes.
    static let pathLimit = 1_024

    init?(_ text: String) {
        do throws(Mistake) { try self.init(checking: text) } catch { return nil }
    }

    init(checking text: String) throws(Mistake) {
        try Self.checkCharacters(text)
        let scheme = try Self.scheme(of: text)
        isTLS = scheme == "https"
        var rest = text.dropFirst(scheme.utf8.count + "://".utf8.count)
        if let character = rest.first(where: { "?#@".contains($0) }) {
            let part = ["?": "a query", "#": "a fragment", "@": "a user name or password"][character] ?? ""
            throw Self.mistake("contains \(part), which a base URL must not have", text)
        }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        var path = rest[slash...]
        while path.hasSuffix("/") { path.removeLast() }
        guard path.utf8.count <= Self.pathLimit else {
            throw Self.mistake("has a path of \(path.utf8.count) bytes, but at most \(Self.pathLimit) are possible", text)
        }
        self.path = String(path)
        rest = rest[..<slash]
        let (name, port) = try Self.split(rest, text)
        host = try Self.host(name, text)
        self.port = port ?? (isTLS ? 443 : 80)
    }

    private static func mistake(_ clause: String, _ text: String, hint: String = "") -> Mistake {
        Mistake(clause: "\(clause): \"\(shown(text))\"\(hint)")
    }

    /// The text without user information, query and fragment, at a length for a message.
    static func shown(_ text: String) -> String {
        let text = text.replacing("\"", with: "'")
        let address = text.prefix { $0 != "#" }
        let quoted = HiddenSecrets.hide(in: "\"\(address)\"")
        let hidden = String(quoted.dropFirst().dropLast()) + (address.endIndex == text.endIndex ? "" : "#…")
        return hidden.count > 200 ? "\(hidden.prefix(200))…" : hidden
    }

    private static func checkCharacters(_ text: String) throws(Mistake) {
        guard let scalar = text.unicodeScalars.first(where: { $0.value <= 0x20 || $0.value >= 0x7f }) else { return }
        switch scalar.value {
        case 0x20: throw mistake("contains a space", text)
        case 0x80...: throw mistake("contains the character \(scalar): write the host in its ASCII form (xn--…), and encode the path", text)
        default: throw mistake("contains a control character", text)
        }
    }

    /// Returns `http` or `https`.
    private static func scheme(of text: String) throws(Mistake) -> String {
        guard let end = text.firstRange(of: "://") else {
            let scheme = text.prefix { $0 != ":" }.lowercased()
            if text.contains(":"), scheme == "http" || scheme == "https" { throw mistake("needs // after \(scheme):", text) }
            let full = named(by: text) ?? "http://" + text
            throw mistake("has no scheme", text, hint: UpstreamURL(full) == nil ? "" : "; did you mean \(full)?")
        }
        let scheme = text[..<end.lowerBound].lowercased()
        guard scheme != "http", scheme != "https" else { return scheme }
        let isName = !scheme.isEmpty && scheme.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "+-.".utf8.contains($0) }
        throw mistake(isName ? "has the scheme \(scheme), but only http and https are possible" : "has no valid scheme", text)
    }

    /// Splits host and port. The port is nil if there is none.
    private static func split(_ authority: Substring, _ text: String) throws(Mistake) -> (Substring, UInt16?) {
        if !authority.hasPrefix("["), authority.count(where: { $0 == ":" }) > 1 {
            throw mistake("contains an IPv6 address without brackets, as in http://[::1]:8080", text)
        }
        guard let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") else { return (authority, nil) }
        if let clause = PortMistake.clause(authority[authority.index(after: colon)...], least: 1) { throw mistake(clause, text) }
        return (authority[..<colon], UInt16(authority[authority.index(after: colon)...]))
    }

    private static func host(_ name: Substring, _ text: String) throws(Mistake) -> String {
        guard !name.isEmpty else { throw mistake("has no host", text) }
        if name.hasPrefix("[") || name.hasSuffix("]") {
            let inner = String(name.dropFirst().dropLast())
            var address = in6_addr()
            guard name.hasPrefix("["), name.hasSuffix("]"), inet_pton(AF_INET6, inner, &address) == 1 else {
                throw mistake("contains brackets without a valid IPv6 address", text)
            }
            return inner
        }
        guard name.utf8.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || ".-_".utf8.contains($0) }) else {
            throw mistake("has a host with a character that is not possible in host names", text)
        }
        return String(name)
    }
}

enum PortMistake {
    /// Returns what is wrong with the text of a port, as a clause that follows the address; nil if it is valid.
    static func clause(_ port: Substring, least: UInt16) -> String? {
        guard !port.isEmpty else { return "has no port after the colon" }
        guard port.utf8.allSatisfy({ $0.isASCIIDigit }) else { return "has a port that is not a number" }
        guard let number = UInt16(port), number >= least else { return "has a port outside \(least) to 65535" }
        return nil
    }
}

extension UpstreamURL {
    /// The URL that the first argument of `serve` names; nil if it cannot be one. Without a scheme, local addresses and other ports than 443
    /// use http.
    static func named(by argument: String) -> String? {
        if argument.contains("://") { return argument }
        let authority = argument.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let host = authority.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
        let isFile = [".yaml", ".yml", ".json", ".har", ".toml", ".conf"].contains { argument.lowercased().hasSuffix($0) }
        guard !isFile, let parsed = UpstreamURL("http://\(host.isEmpty ? "-" : host)") ?? unfinished(host), !parsed.host.hasPrefix("-"),
            !parsed.host.hasPrefix("."), host.lowercased() == "localhost" || host.contains(".") || host.contains(":")
        else { return nil }
        let isNumber = parsed.host.contains(":") || parsed.host.utf8.allSatisfy { $0.isASCIIDigit || $0 == UInt8(ascii: ".") }
        let isLocal = isNumber || parsed.host.lowercased() == "localhost" || parsed.host.lowercased().hasSuffix(".localhost")
        let isTLS = parsed.port == 443 || parsed.port == 80 && !isLocal && !host.contains(":")
        return (isTLS ? "https://" : "http://") + argument
    }

    /// A host with a wrong port, so that a mistake about the port can follow.
    private static func unfinished(_ text: Substring) -> UpstreamURL? {
        guard let colon = text.lastIndex(of: ":"), text[colon...].dropFirst().utf8.allSatisfy({ $0.isASCIIDigit }) else { return nil }
        return UpstreamURL("http://\(text[..<colon])")
    }
}
