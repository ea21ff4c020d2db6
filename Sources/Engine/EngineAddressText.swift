// Parses a server's address: redis://name:6379, rediss://name:6379 (TLS), unix:/path, or a path. The suffix /3 after the port selects
// database 3.

public enum EngineAddressProblem: String, Error, Sendable {
    case scheme = "must begin with redis://, rediss://, valkey://, valkeys://, unix:// or a slash"
    case credentials = "must not contain a user or password: use share.user and share.password_file"
    case host = "has no host"
    case port = "has a port that is not a number from 1 to 65535"
    case rest = "must end with the port, or with / and the number of a database"
    case path = "must have a path of 1 to 107 bytes"
}

extension EngineServer {
    public static let defaultPort: UInt16 = 6379

    /// - Returns: the server, whether the text asks for TLS, and the database.
    public static func read(_ text: String) throws(EngineAddressProblem) -> (server: EngineServer, isTLS: Bool, database: Int) {
        if text.hasPrefix("/") { return (try unixSocket(text), false, 0) }
        guard let (scheme, address) = text.cut(":"), address.hasPrefix("//") else { throw .scheme }
        let rest = address.dropFirst(2)
        switch scheme {
        case "redis", "valkey", "rediss", "valkeys":
            let (address, database) = try databaseCut(rest)
            return (try network(address), scheme.hasSuffix("ss") || scheme == "valkeys", database)
        case "unix": return (try unixSocket(String(rest)), false, 0)
        default: throw .scheme
        }
    }

    private static func unixSocket(_ path: String) throws(EngineAddressProblem) -> EngineServer {
        // sun_path ends with a zero (unix(7)).
        guard path.hasPrefix("/"), path.utf8.count > 1, path.utf8.count <= 107, !path.utf8.contains(0) else { throw .path }
        return .unix(path)
    }

    private static func databaseCut(_ text: Substring) throws(EngineAddressProblem) -> (Substring, Int) {
        if text.contains("@") { throw .credentials }
        guard let (address, digits) = text.cut("/") else { return (text, 0) }
        guard !digits.isEmpty else { return (address, 0) }
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(digits), number <= 0xffff else { throw .rest }
        return (address, number)
    }

    private static func network(_ text: Substring) throws(EngineAddressProblem) -> EngineServer {
        if text.contains(where: { "?#".contains($0) }) { throw .rest }
        var (host, port) = (text, Substring(String(defaultPort)))
        if text.first == "[" {
            guard let (inner, rest) = text.dropFirst().cut("]") else { throw .host }
            guard rest.isEmpty || rest.first == ":" else { throw .rest }
            host = inner
            if !rest.isEmpty { port = rest.dropFirst() }
        } else if let (name, number) = text.cut(":") {
            (host, port) = (name, number)
        }
        guard !host.isEmpty, host.utf8.count <= 253, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw .host }
        guard let number = UInt16(port), number > 0, port.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { throw .port }
        return .host(String(host), port: number)
    }
}

extension StringProtocol {
    func cut(_ separator: Character) -> (SubSequence, SubSequence)? {
        firstIndex(of: separator).map { (self[..<$0], self[index(after: $0)...]) }
    }
}
