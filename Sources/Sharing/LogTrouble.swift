// Reasons why the log cannot be followed or a server fails, as sentences for the log, `cistern check` and `cistern share status`.

import Engine
import Fleet

public enum LogTrouble: Sendable, Equatable {
    case failed(EngineFailure, EngineServer?)
    case notUnderstood
    case otherSecret
    case otherUpstream
    case disconnected(DisconnectCause)
    /// The engine allows reading and refuses entries.
    case refused(EngineFailure?, EngineServer?)
    case outdated(String, EngineServer?)

    /// - Parameters:
    ///   - known: cause known to the caller.
    ///   - refusal: last refusal by the engine.
    init(_ cause: DisconnectCause, known: LogTrouble?, refusal: EngineFailure? = nil, _ server: EngineServer?) {
        switch cause {
        case .lost: self = known ?? .failed(.connectionLost, server)
        case .silence: self = .failed(.timedOut, server)
        case .refused: self = .refused(refusal, server)
        case .stopped, .otherLog, .otherPrimary, .removed, .missing, .unheard: self = .disconnected(cause)
        }
    }

    public static let labels =
        EngineFailure.allCases.map(\.rawValue)
        + ([.notUnderstood, .otherSecret, .otherUpstream, .refused(nil, nil), .outdated("", nil)] as [LogTrouble]).map(\.label)
        + ([.stopped, .otherLog, .otherPrimary, .removed, .missing, .unheard] as [DisconnectCause]).map(\.rawValue)

    public var label: String {
        switch self {
        case .failed(let failure, _): failure.rawValue
        case .notUnderstood: "not_understood"
        case .otherSecret: "other_secret"
        case .otherUpstream: "other_upstream"
        case .disconnected(let cause): cause.rawValue
        case .refused: "refused"
        case .outdated: "outdated"
        }
    }

    public func sentence(fleet: String) -> String {
        switch self {
        case .failed(let failure, let server): "\(server?.description ?? "the engine") \(failure.sentence(fleet: fleet))"
        case .notUnderstood: "the engine's replies about the log cannot be parsed"
        case .otherSecret:
            "fleet \(fleet) has another share.secret_file than this node, so they share nothing. Give this node the fleet's secret, or another share.fleet. If this node has the right one, remove cistern:\(fleet):{log}:nodes from the engine"
        case .otherUpstream:
            "other nodes of fleet \(fleet) have another upstream for an API that this node serves. Give this node another share.fleet. While an upstream's address changes, this node connects half a minute after the last node with the former one"
        case .disconnected(let cause): cause.sentence
        case .refused(let failure, let server):
            "\(server?.description ?? "the engine") allows reading but refuses new entries: it "
                + "\(failure?.sentence(fleet: fleet) ?? "does not say why")"
        case .outdated(let version, let server): InfoText.sentence(outdated: version, server)
        }
    }

    var isMisconfiguration: Bool {
        switch self {
        case .failed(let failure, _): failure.isMisconfiguration
        case .refused(let failure, _): failure?.isMisconfiguration ?? false
        case .outdated, .otherSecret, .otherUpstream, .disconnected(.unheard): true
        case .notUnderstood, .disconnected: false
        }
    }
}

extension DisconnectCause {
    fileprivate var sentence: String {
        switch self {
        case .lost, .silence, .refused: "the engine does not say why"
        case .stopped: "this process, or its machine, was suspended for a while; it reads the missed entries first"
        case .otherLog: "the engine has another log than before, which is read first"
        case .otherPrimary: "another server now has the log, which is read first"
        case .removed: "the log was removed from the engine; the new log is read from its beginning"
        case .missing: "entries of another node are missing; this node waits for them"
        case .unheard:
            "this node does not read the entries that it appends: an address in share.servers leads to several servers. It must lead to "
                + "one primary"
        }
    }
}

extension EngineFailure {
    /// Clause that follows a server's name, or "the engine".
    public func sentence(fleet: String) -> String {
        switch self {
        case .unreachable: "cannot be reached"
        case .connectionLost: "has ended the connection"
        case .timedOut: "does not reply in time"
        case .breakerOpen: "has failed recently and is not contacted for a while"
        case .queueFull: "refuses a command because of a limit"
        case .denied:
            "rejects the user or the password, or requires one (share.user, share.password_file; each server has its own users)"
        case .commandForbidden:
            "denies the user a required command (cistern check names it; Configuration/Guides/Several-Nodes.md has the complete ACL line)"
        case .keyForbidden: "denies the user the keys of this fleet: its ACL needs ~cistern:\(fleet):*"
        case .loading: "is loading its data"
        case .readOnly: "is a replica, or has lost its primary"
        case .clusterDown: "reports that the Cluster is down: some slots have no server, or most primaries cannot be reached"
        case .notCluster:
            "is not a Cluster, and share.servers has several addresses. Specify one address that leads to the primary (a managed engine, "
                + "a load balancer or Sentinel), or servers of one Cluster"
        case .redirected: "does not serve the slot, and neither does any other server"
        case .full: "refuses writes: its memory or its disk is full, or it has too few replicas"
        case .protocolError: "sends replies that are not valid RESP"
        case .untrusted: "has a certificate that is not trusted (share.tls.ca_file), or does not trust ours"
        case .noTLS: "can be reached, but the TLS handshake fails. Check whether the port uses TLS: rediss:// uses TLS, redis:// does not"
        case .noDatabase:
            "does not allow the database number in share.servers: a Cluster has database 0 only, and the user needs +select for another one"
        case .closed: "is no longer used"
        }
    }

    var isMisconfiguration: Bool {
        [.denied, .commandForbidden, .keyForbidden, .untrusted, .notCluster, .noDatabase].contains(self)
    }
}
