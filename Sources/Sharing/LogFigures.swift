// What this node knows and counts of the log.

import Engine
import Fleet

/// What is counted of the log.
public struct LogFigures: Sendable {
    /// Entries of others that were obeyed; entries of this node that are in the log.
    public var applied: UInt64 = 0
    public var appended: UInt64 = 0
    public var gaps: [LogGap: UInt64] = [:]
    public var blindings: UInt64 = 0
    /// Of no secret that this node has, and when the last one came (milliseconds of the clock of day).
    public var unopened: UInt64 = 0
    public var lastUnopened: Int64?
    /// Entries by keys that no node of the fleet has.
    public var foreign: UInt64 = 0
    /// Milliseconds of the clock of day; nil: the log is seen.
    public var blindSince: Int64?
    public var pendingPurges: [LogWriter.Pending: Int] = [:]
    /// The last entry that was read, and its age when it was (milliseconds); 0 where all was read at once, after a while away.
    public var position = LogPosition.beginning
    public var lagMilliseconds: Int64 = 0
    /// Nodes that have written lately, and when each was heard of last (milliseconds of the log).
    public var nodes: [UInt64: UInt64] = [:]
    public var replicas = 0
    /// Commands for the log that had no reply.
    public var engineFailures: [EngineFailure: UInt64] = [:]
    /// Why the log cannot be seen; nil where it can.
    public var trouble: LogTrouble?
    /// Who has the log, and its slot where that is a Cluster's; nil: it is not known.
    public var server: EngineServer?
    public var slot: Int?

    public init() {}

    /// Other processes that have written since a time of the log.
    func nodes(since time: Int64, besides own: UInt64) -> Int {
        nodes.count { $0.key != own && Int64(clamping: $0.value) >= time }
    }
}

/// Why the log cannot be seen.
public enum LogTrouble: Sendable, Equatable {
    /// - Parameter server: who has failed, where that is known.
    case failed(EngineFailure, EngineServer?)
    /// What the engine says of the log cannot be made sense of.
    case notUnderstood
    case otherSecret
    case otherUpstream
    case stopped
    case otherLog
    case otherPrimary
    case removed
    case missing
    /// The engine can be read, and does not take what this node appends. Why it does not, where it says so.
    case refused(EngineFailure?, EngineServer?)
    /// What is appended is not read: the address leads to several servers.
    case unheard
    /// A version of Redis that lacks what is needed.
    case outdated(String, EngineServer?)

    /// - Parameters:
    ///   - known: what was said of it by who asked.
    ///   - refusal: why the engine refused an entry last.
    ///   - server: who has the log.
    init(_ cause: BlindCause, known: LogTrouble?, refusal: EngineFailure? = nil, _ server: EngineServer?) {
        switch cause {
        case .lost: self = known ?? .failed(.connectionLost, server)
        case .silence: self = .failed(.timedOut, server)
        case .stopped: self = .stopped
        case .otherLog: self = .otherLog
        case .otherPrimary: self = .otherPrimary
        case .removed: self = .removed
        case .missing: self = .missing
        case .refused: self = .refused(refusal, server)
        case .unheard: self = .unheard
        }
    }

    /// Labels of metrics.
    public static let labels =
        EngineFailure.allCases.map(\.rawValue)
        + ([.notUnderstood, .otherSecret, .otherUpstream, .stopped, .otherLog, .otherPrimary, .removed, .missing] as [LogTrouble]).map(
            \.label)

    public var label: String {
        switch self {
        case .failed(let failure, _): failure.rawValue
        case .notUnderstood: "not_understood"
        case .otherSecret: "other_secret"
        case .otherUpstream: "other_upstream"
        case .stopped: "stopped"
        case .otherLog: "other_log"
        case .otherPrimary: "other_primary"
        case .removed: "log_removed"
        case .missing: "entries_missing"
        case .refused: "refused"
        case .unheard: "unheard"
        case .outdated: "outdated"
        }
    }

    public func sentence(fleet: String) -> String {
        switch self {
        case .failed(let failure, let server): "\(server?.description ?? "the engine") \(failure.sentence(fleet: fleet))"
        case .notUnderstood: "what the engine says of the log cannot be understood"
        case .otherSecret:
            "fleet \(fleet) has another share.secret_file than this node, which shares nothing with it and tells it nothing. Give this node the fleet's secret, or a fleet of its own. If this node has the right one, remove cistern:\(fleet):{log}:nodes from the engine"
        case .otherUpstream:
            "other nodes of fleet \(fleet) have another upstream for an API that this node serves. Give this node a fleet of its own. While an upstream's address changes, this node connects half a minute after the last node with the former one"
        case .stopped: "this process, or its machine, did not run for a while, and reads first what was said meanwhile"
        case .otherLog: "the engine has another log than it had, which is read first"
        case .otherPrimary: "another server has the log now, which is read first"
        case .removed: "the log was removed from the engine, and is read anew"
        case .missing: "entries of another node are missing, and are waited for"
        case .refused(let failure, let server):
            "\(server?.description ?? "the engine") can be read, and refuses entries: it \(failure?.sentence(fleet: fleet) ?? "does not say why")"
        case .unheard:
            "what this node appends is not what it reads: an address in share.servers leads to several servers, and has to lead to one primary"
        case .outdated(let version, let server): InfoText.sentence(outdated: version, server)
        }
    }

    var isMisconfiguration: Bool {
        switch self {
        case .failed(let failure, _): failure.isMisconfiguration
        case .refused(let failure, _): failure?.isMisconfiguration ?? false
        case .unheard, .outdated, .otherSecret, .otherUpstream: true
        case .notUnderstood, .stopped, .otherLog, .otherPrimary, .removed, .missing: false
        }
    }
}
