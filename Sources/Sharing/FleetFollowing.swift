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

    /// What a message has this node do. A message that cannot be read may mean anything.
    static func orders(of message: LogMessage) -> [FleetOrder] {
        switch message.kind {
        case .target, .collection, .group, .entry: [.mark(message.argument, isSoft: message.isSoft)]
        case .marks: message.marks.map { $0.map { .mark($0, isSoft: message.isSoft) } } ?? [.everything(isSoft: true)]
        case .selection: [FleetSelection(message.argument).map { .purge($0, isSoft: message.isSoft) } ?? .everything(isSoft: true)]
        case .all: [.everything(isSoft: message.isSoft)]
        case .unknown: [.everything(isSoft: true)]
        case .fence, .hello: []
        }
    }

    public var isMark: Bool { if case .mark = self { true } else { false } }
}

public protocol FleetFollowing: Sendable {
    /// Obeys marks, before it returns. No response that was requested until now is stored where a mark concerns it.
    func follow(_ marks: ArraySlice<FleetOrder>)

    /// Obeys orders that are no marks, in their order, like `follow`. More orders may come once they are done.
    /// - Parameter done: called once, from any thread.
    func obey(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void)

    /// Flushes the store. Returns when all that was obeyed until now is on the disk. Must not be called on an event loop.
    func synchronize()

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
    /// What it means for records.
    var tableMarks: [Mark] {
        switch kind {
        case .target, .collection, .group, .entry: [.hash(FleetNode.hash(argument))]
        case .marks: marks.map { $0.map { .hash(FleetNode.hash($0)) } } ?? [.all]
        case .selection: [.selection(argument)]
        case .all, .unknown: [.all]
        case .fence, .hello: []
        }
    }

    /// One message for the keys of marks.
    init(of keys: [[UInt8]], isSoft: Bool = false) {
        guard keys.count == 1, let key = keys.first else {
            self.init(marks: keys, isSoft: isSoft)
            return
        }
        switch key.last {
        case UInt8(ascii: "C"): self.init(.collection, argument: key, isSoft: isSoft)
        case UInt8(ascii: "I"): self.init(.target, argument: key, isSoft: isSoft)
        default: self.init(.group, argument: key, isSoft: isSoft)
        }
    }
}
