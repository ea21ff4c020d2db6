// Where the engine is, who we are there, and how much it may cost.

import Descriptors

/// One server of Redis or Valkey.
public enum EngineServer: Hashable, Sendable, CustomStringConvertible {
    case host(String, port: UInt16)
    case unix(String)

    /// As it is written in settings, without a scheme.
    public var description: String {
        switch self {
        case .host(let name, let port): name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)"
        case .unix(let path): path
        }
    }
}

/// TLS with all servers. Files in PEM; they are read for each new connection, so a renewed one is used without a restart.
public struct EngineTLS: Sendable, Equatable {
    /// nil: the system's authorities.
    public var authorities: String?
    public var certificate: String?
    public var key: String?
    /// The name that each server's certificate has to be good for. nil: the name or address by which it is asked, which in a Cluster is the one that
    /// the Cluster tells of.
    public var name: String?

    public init(authorities: String? = nil, certificate: String? = nil, key: String? = nil, name: String? = nil) {
        (self.authorities, self.certificate, self.key, self.name) = (authorities, certificate, key, name)
    }
}

/// What the engine may cost, and how long it is waited for.
public struct EngineLimits: Sendable, Equatable {
    /// Of one reply, as it comes. More ends the connection: what is shared is far smaller, and a reply is held in memory whole.
    public var replyBytes = 16 << 20
    /// Of one reply: its lists, and what is in them. A Cluster of a hundred nodes with broken up slots tells of itself in a tenth.
    public var replyElements = 262_144
    /// Of replies that have not come whole, on all connections together.
    public var unfinishedBytes = 64 << 20
    /// For each server: sent and without a reply, or waiting to be sent. A thousand are on their way at 100,000 a second and 10 ms.
    public var commandsUnderWay = 4096
    /// For each server: written and not yet taken by the kernel.
    public var unsentBytes = 16 << 20
    /// Commands that wait for the Cluster's map, or to be sent again.
    public var commandsWaiting = 4096
    /// How often one command is sent to another server.
    public var redirections = 5
    /// Servers that are known at a time: each may have a connection on each loop, and an engine can name what it likes.
    public var servers = 128
    /// No reply for so long, while commands are under way, opens the breaker; the reply to a probe closes it that comes sooner.
    public var silenceMilliseconds: Int64 = 250
    /// The same, and the connection is made anew: whoever was there may be gone without a word.
    public var deadMilliseconds: Int64 = 1500
    /// So many failures in a row open the breaker.
    public var failures = 3
    /// How often a server whose breaker is open is tried; one whose breaker opens again at once less and less often, up to each 8 s.
    public var probeMilliseconds: Int64 = 500
    /// For the name, the connection, TLS and the password together.
    public var connectMilliseconds: Int64 = 1000
    /// The Cluster's map is looked up this often at most.
    public var mapMilliseconds: Int64 = 200

    public init() {}
}

public struct EngineSettings: Sendable, Equatable, CustomStringConvertible {
    /// One address, or several servers of a Cluster, which tells of the rest.
    public var servers: [EngineServer]
    /// nil: the user that needs no name.
    public var username: String?
    /// Its first line is the password; a second line, if there is one, is the user instead of `username`. Read for each connection, so a rotated
    /// token is used without a restart. nil: no AUTH is sent.
    public var passwordFile: String?
    /// For CLIENT SETNAME; nil: none.
    public var clientName: String?
    /// For SELECT. A Cluster has 0 only.
    public var database = 0
    /// nil: in clear.
    public var tls: EngineTLS?
    /// How long a command is waited for where it does not say so itself.
    public var patienceMilliseconds: Int64 = 10
    public var limits = EngineLimits()

    public init(servers: [EngineServer]) { self.servers = servers }

    /// Without the password, wherever it is printed.
    public var description: String {
        "\(servers.map(\.description).joined(separator: ", "))\(tls == nil ? "" : " by TLS")\(passwordFile == nil ? "" : " with a password")"
    }
}

/// What AUTH sends.
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

extension EngineSettings: CustomReflectable, CustomDebugStringConvertible {
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: ["servers": description]) }
}
