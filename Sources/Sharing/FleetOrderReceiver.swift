// What the log makes this node do, and the protocol of the store's side.

import CachePolicy
import Fleet
import ResponseCache

/// An entry of another node, as the local store applies it.
public enum FleetOrder: Sendable, Equatable {
    /// Key of a mark (`FleetStorage.invalidated`). Soft: stored responses become stale and are kept.
    case mark([UInt8], isSoft: Bool = false)
    case purge(FleetSelection, isSoft: Bool)
    case everything(isSoft: Bool)

    /// A message that cannot be read may mean anything.
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

public protocol FleetOrderReceiver: Sendable {
    /// Applies marks before it returns. No response that was requested earlier is stored where a mark concerns it.
    func follow(_ marks: ArraySlice<FleetOrder>)

    /// Applies orders that are no marks, in their order.
    /// - Parameter done: called once, from any thread.
    func apply(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void)

    /// Flushes the store. Must not be called on an event loop.
    func synchronize()

    func finish()

    var hasStored: Bool { get }

    /// Whether this process may write the files: not after another has taken over. Called from any thread.
    var mayKeepPosition: Bool { get }
}

extension LogMessage {
    var tableMarks: [Mark] {
        switch kind {
        case .target, .collection, .group, .entry: [.hash(FleetNode.hash(argument))]
        case .marks: marks.map { $0.map { .hash(FleetNode.hash($0)) } } ?? [.all]
        case .selection: [.selection(argument)]
        case .all, .unknown: [.all]
        case .fence, .hello: []
        }
    }

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
