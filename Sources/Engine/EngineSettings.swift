// Address, credentials and limits of the engine.

import Reactor

public enum EngineServer: Hashable, Sendable, CustomStringConvertible {
    case host(String, port: UInt16)
    case unix(String)

    /// As in settings, without a scheme.
    public var description: String {
        switch self {
        case .host(let name, let port): name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)"
        case .unix(let path): path
        }
    }
}

/// Files in PEM, read for each new connection.
public struct EngineTLS: Sendable, Equatable {
    public var authorities: String?
    public var certificate: String?
    public var key: String?
    /// Name in the servers' certificates; nil: the name or address used for the connection.
    public var name: String?

    public init(authorities: String? = nil, certificate: String? = nil, key: String? = nil, name: String? = nil) {
        (self.authorities, self.certificate, self.key, self.name) = (authorities, certificate, key, name)
    }
}

public struct EngineLimits: Sendable, Equatable {
    /// Of one reply. A longer one ends the connection.
    public var replyBytes = 16 << 20
    /// Lists and elements of one reply. A Cluster of a hundred nodes with fragmented slots needs a tenth.
    public var replyElements = 262_144
    /// Of incomplete replies, on all connections together.
    public var unfinishedBytes = 64 << 20
    /// Sent or waiting, for each server.
    public var commandsUnderWay = 4096
    /// Not yet accepted by the kernel, for each server.
    public var unsentBytes = 16 << 20
    public var commandsWaiting = 4096
    public var redirections = 5
    /// Known servers: an engine may name any number.
    public var servers = 128
    /// Time without a reply that opens the breaker. Faster probes close it.
    public var silenceMilliseconds: Int64 = 250
    /// Time without a reply that ends the connection.
    public var deadMilliseconds: Int64 = 1500
    /// Failures in a row that open the breaker.
    public var failures = 3
    /// Interval of probes. After relapses it grows to 8 s.
    public var probeMilliseconds: Int64 = 500
    /// Name lookup, connection, TLS and password together.
    public var connectMilliseconds: Int64 = 1000
    /// Minimum interval of map look-ups.
    public var mapMilliseconds: Int64 = 200

    public init() {}
}

public struct EngineSettings: Sendable, Equatable, CustomStringConvertible {
    /// One address, or several servers of a Cluster.
    public var servers: [EngineServer]
    public var username: String?
    /// Password file, read for each connection: the first line is the password; a second line replaces `username`. nil: no AUTH.
    public var passwordFile: String?
    public var clientName: String?
    /// A Cluster has 0 only.
    public var database = 0
    public var tls: EngineTLS?
    public var patienceMilliseconds: Int64 = 10
    public var limits = EngineLimits()

    public init(servers: [EngineServer]) { self.servers = servers }

    public var description: String {
        "\(servers.map(\.description).joined(separator: ", "))\(tls == nil ? "" : " by TLS")\(passwordFile == nil ? "" : " with a password")"
    }
}

struct EngineCredentials: Sendable, Equatable {
    let user: [UInt8]?
    let password: [UInt8]

    /// nil: the file cannot be read or has no password.
    init?(file: String, user: String?) {
        let lines = FileContent.read(file)?.split(separator: 0x0a, omittingEmptySubsequences: false).map { $0.filter { $0 != 0x0d } } ?? []
        guard let password = lines.first, !password.isEmpty else { return nil }
        self.user = lines.count > 1 && !lines[1].isEmpty ? Array(lines[1]) : user.map { Array($0.utf8) }
        self.password = Array(password)
    }
}
