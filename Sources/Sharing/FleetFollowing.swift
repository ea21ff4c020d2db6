// What the log has this node do, and who does it: the side that knows the store and the loops.

import CachePolicy
import Fleet
import ResponseCache

/// What another node has said, as the local store obeys it.
public enum FleetOrder: Sendable, Equatable {
    /// Key of a mark (`SharedLevel.invalidated`). Soft: stored responses become stale and are kept.
    case mark([UInt8], isSoft: Bool = false)
    case purge(FleetSelection, isSoft: Bool)
    /// All that is stored: stale, or gone.
    case everything(isSoft: Bool)

    /// nil where there is nothing to obey.
    init?(_ message: LogMessage) {
        switch message.kind {
        case .target, .collection, .group, .entry: self = .mark(message.argument, isSoft: message.isSoft)
        case .selection:
            // What cannot be read may mean anything.
            guard let selection = FleetSelection(message.argument) else {
                self = .everything(isSoft: true)
                return
            }
            self = .purge(selection, isSoft: message.isSoft)
        case .all: self = .everything(isSoft: message.isSoft)
        case .unknown: self = .everything(isSoft: true)
        case .fence, .hello: return nil
        }
    }
}

public protocol FleetFollowing: Sendable {
    /// Does what others have said, in order. Nothing that was asked for until now is stored where it may be meant. More may be said once it is done.
    /// - Parameters:
    ///   - done: called once, from any thread.
    ///   - kept: the same, when it lies on the disk.
    func obey(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void, kept: @escaping @Sendable () -> Void)

    /// Waits until what was begun is done: nothing more will be asked for.
    func finish()

    /// Whether anything is stored here. Asked from the log's loop.
    var hasStored: Bool { get }

    /// Whether this process may say how far the store has come, and what is pending: not where another has taken over. Asked from
    /// any thread.
    var mayKeepPosition: Bool { get }
}

extension LogGap {
    var doubt: FleetDoubt {
        switch self {
        case .neverFollowed: .neverFollowed
        case .epoch: .epoch
        case .trimmed: .trimmed
        case .lostEntries: .lostEntries
        }
    }
}

extension LogMessage {
    /// What it means for records; nil: nothing.
    var mark: Mark? {
        switch kind {
        case .target, .collection, .group, .entry: .hash(FleetNode.hash(argument))
        case .selection: .selection(argument)
        case .all, .unknown: .all
        case .fence, .hello: nil
        }
    }

    /// Of the key of a mark.
    init(mark: [UInt8], isSoft: Bool = false) {
        switch mark.last {
        case UInt8(ascii: "C"): self.init(.collection, argument: mark, isSoft: isSoft)
        case UInt8(ascii: "I"): self.init(.target, argument: mark, isSoft: isSoft)
        default: self.init(.group, argument: mark, isSoft: isSoft)
        }
    }
}
