// Address, credentials and limits of the engine.

import Reactor

public enum EngineServer: Hashable, Sendable, CustomStringConvertible {
    case host(String, port: UInt16)
    case unix(String)

    /// Address in the notation of the settings, without a scheme.
    public var description: String {
        switch self {
        case .host(let name, let port): name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)"
        case .unix(let path): path
        }
    }
}

/// PEM files for TLS, read for each new connection.
public struct EngineTLS: Sendable, Equatable {
    public var authorities: String?
    public var certificate: String?
    public var key: String?
    /// Name expected in the servers' certificates; nil for the name or address used for the connection.
    public var name: String?

    public init(authorities: String? = nil, certificate: String? = nil, key: String? = nil, name: String? = nil) {
        (self.authorities, self.certificate, self.key, self.name) = (authorities, certificate, key, name)
    }
}

public struct EngineLimits: Sendable, Equatable {
    /// Maximum bytes of one reply. A longer one ends the connection.
    public var replyBytes = 16 << 20
    /// Maximum number of lists and elements of one reply. A Cluster of a hundred nodes with fragmented slots needs a tenth of it.
    public var replyElements = 262_144
    /// Maximum bytes of incomplete replies on all connections together.
    public var unfinishedBytes = 64 << 20
    /// Maximum number of commands that are sent or waiting, for each server.
    public var commandsUnderWay = 4096
    /// Maximum bytes that the kernel has not accepted yet, for each server.
    public var unsentBytes = 16 << 20
    public var commandsWaiting = 4096
    public var redirections = 5
    /// Maximum number of known servers, because an engine may report any number.
    public var servers = 128
    /// Milliseconds without a reply after which the circuit breaker opens. More frequent probes close it.
    public var silenceMilliseconds: Int64 = 250
    /// Milliseconds without a reply after which the connection is ended.
    public var deadMilliseconds: Int64 = 1500
    /// Consecutive failures after which the circuit breaker opens.
    public var failures = 3
    /// Interval of probes in milliseconds. After relapses it grows to 8 s.
    public var probeMilliseconds: Int64 = 500
    /// Maximum milliseconds for name lookup, connection, TLS and password together.
    public var connectMilliseconds: Int64 = 1000
    /// Minimum interval between lookups of the slot map, in milliseconds.
    public var mapMilliseconds: Int64 = 200

    public init() {}
}

public struct EngineSettings: Sendable, Equatable, CustomStringConvertible {
    /// One address, or several servers of one Cluster.
    public var servers: [EngineServer]
    public var username: String?
    /// Password file, read for each connection. The first line is the password; a second line replaces `username`. nil: no AUTH is sent.
    public var passwordFile: String?
    public var clientName: String?
    /// Database number. A Cluster has database 0 only.
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

    /// nil if the file cannot be read or has no password.
    init?(file: String, user: String?) {
        let lines = FileContent.read(file)?.split(separator: 0x0a, omittingEmptySubsequences: false).map { $0.filter { $0 != 0x0d } } ?? []
        guard let password = lines.first, !password.isEmpty else { return nil }
        self.user = lines.count > 1 && !lines[1].isEmpty ? Array(lines[1]) : user.map { Array($0.utf8) }
        self.password = Array(password)
    }
}
