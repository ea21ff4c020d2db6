// Orders that the log gives to this node's store, and the protocol that the store implements.

import CachePolicy
import Fleet
import ResponseCache

/// The effect of another node's entry on the local store.
public enum FleetOrder: Sendable, Equatable {
    /// Key of a mark (`FleetStorage.invalidated`). If soft, stored responses become stale and are kept.
    case mark([UInt8], isSoft: Bool = false)
    case purge(FleetSelection, isSoft: Bool)
    case everything(isSoft: Bool)

    /// Returns the orders of a message. A message that cannot be parsed has the widest possible effect.
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
    /// Applies marks before it returns. A response requested before a mark is not stored if the mark concerns it.
    func follow(_ marks: ArraySlice<FleetOrder>)

    /// Applies orders other than marks, in their order.
    /// - Parameter done: called once, from any thread.
    func apply(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void)

    /// Flushes the store. Must not be called on an event loop.
    func synchronize()

    func finish()

    var hasStored: Bool { get }

    /// Whether this process may write the position file: false after another process has taken over. May be called from any thread.
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
