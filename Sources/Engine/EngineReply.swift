// Reply to a command.

public enum EngineReply: Sendable, Equatable {
    case status([UInt8])
    /// An error reply that is not an `EngineFailure`.
    case error([UInt8])
    case integer(Int64)
    case bytes([UInt8])
    case nothing
    case list([EngineReply])
    case failed(EngineFailure)

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

/// Why a command failed. Raw values are labels of metrics.
public enum EngineFailure: String, Error, Sendable, CaseIterable {
    case unreachable
    /// The command may have been executed.
    case connectionLost = "connection_lost"
    /// The command may still be executed.
    case timedOut = "timeout"
    case breakerOpen = "breaker_open"
    case queueFull = "queue_full"
    /// The engine replied NOAUTH or WRONGPASS.
    case denied
    /// The engine replied NOPERM for the command.
    case commandForbidden = "command_forbidden"
    /// The engine replied NOPERM for the key only.
    case keyForbidden = "key_forbidden"
    case loading
    /// The server is a replica, or has no primary.
    case readOnly = "read_only"
    case clusterDown = "cluster_down"
    case notCluster = "not_a_cluster"
    case redirected
    /// The server has no memory, or cannot write to its disk or to enough replicas.
    case full
    case protocolError = "protocol"
    case untrusted
    case noTLS = "tls"
    case noDatabase = "no_database"
    case closed
}
