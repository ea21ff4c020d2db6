// What came of a command.

public enum EngineReply: Sendable, Equatable {
    case status([UInt8])
    /// What the engine says is wrong, and none of `EngineFailure`.
    case error([UInt8])
    case integer(Int64)
    case bytes([UInt8])
    case nothing
    case list([EngineReply])
    /// There is no reply that can be used.
    case failed(EngineFailure)

    /// The content of bytes or of a status.
    public var text: [UInt8]? {
        switch self {
        case .bytes(let bytes), .status(let bytes): bytes
        case .error, .integer, .nothing, .list, .failed: nil
        }
    }

    public var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    public var list: [EngineReply]? { if case .list(let list) = self { list } else { nil } }
    public var failure: EngineFailure? { if case .failed(let failure) = self { failure } else { nil } }
}

/// Why there is no reply. Raw values are labels of metrics.
public enum EngineFailure: String, Error, Sendable, CaseIterable {
    /// No connection could be made.
    case unreachable
    /// It ended while the command was under way: whether the engine has done it is not known.
    case connectionLost = "connection_lost"
    /// Patience is over. The engine may do it yet.
    case timedOut = "timeout"
    /// The server has failed lately and is not asked.
    case breakerOpen = "breaker_open"
    /// One of our own limits.
    case queueFull = "queue_full"
    /// It does not know the user or the password, or asks for one: NOAUTH, WRONGPASS.
    case denied
    /// The user may not use the command: NOPERM.
    case commandForbidden = "command_forbidden"
    /// The user may use the command, and not with this key: NOPERM.
    case keyForbidden = "key_forbidden"
    /// It reads its data in.
    case loading
    /// A replica, or one that has lost its primary.
    case readOnly = "read_only"
    case clusterDown = "cluster_down"
    /// Several servers were named, and this one does not belong to a Cluster.
    case notCluster = "not_a_cluster"
    /// One server named the other, too often.
    case redirected
    /// It has no memory left, or cannot write its log or to enough replicas.
    case full
    /// Not what a Redis says; too long, too much; or a reply that nobody has asked for.
    case protocolError = "protocol"
    /// Its certificate is not good, or ours.
    case untrusted
    /// It can be reached, and TLS was not agreed on: perhaps it speaks none there.
    case noTLS = "tls"
    /// SELECT is refused: the number is too high, the server is a Cluster's, or the user may not use the command.
    case noDatabase = "no_database"
    /// The client was closed.
    case closed
}
