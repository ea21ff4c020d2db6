// Orders that the log gives to this node's store, and the protocol that the store implements.

import CachePolicy
import Fleet
import ResponseCache

/// The effect of another node's entry on the local store.
public enum FleetOrder: Sendable, Equatable {
    /// Key of a mark (`FleetStorage.invalidated`). If soft, stored responses become stale and are kept.
    case mark([UInt8], isSoft: Bool = false)
    case purge(FleetSelection, isSoft: Bool)
    /// - Parameter coversWrites: whether a write with any token may be meant.
    case everything(isSoft: Bool, coversWrites: Bool = false)
    /// A write may have changed the users of tokens, which are given as hashes.
    /// - Parameter isLost: whether the other node received no response, so that the upstream may still process the write.
    case identities([[UInt8]], isLost: Bool)

    /// Returns the orders of a message. A message that cannot be parsed has the widest possible effect.
    static func orders(of message: LogMessage) -> [FleetOrder] {
        switch message.kind {
        case .target, .collection, .group, .entry: [.mark(message.argument, isSoft: message.isSoft)]
        case .marks: message.marks.map { $0.map { .mark($0, isSoft: message.isSoft) } } ?? [.everything(isSoft: true)]
        case .selection: [FleetSelection(message.argument).map { .purge($0, isSoft: message.isSoft) } ?? .everything(isSoft: true)]
        case .all: [.everything(isSoft: message.isSoft, coversWrites: message.argument == LogMessage.coversWrites)]
        case .identities: [message.tokens.map { .identities($0, isLost: message.isSoft) } ?? .everything(isSoft: true, coversWrites: true)]
        case .unknown: [.everything(isSoft: true, coversWrites: true)]
        case .fence, .hello: []
        }
    }

    /// Whether the order is applied at once, without a search of the store.
    public var isOfWrite: Bool {
        switch self {
        case .mark, .identities: true
        case .purge, .everything: false
        }
    }
}

public protocol FleetOrderReceiver: Sendable {
    /// Applies orders of writes before it returns. A response requested before such an order is not stored if the order concerns it.
    func follow(_ writes: ArraySlice<FleetOrder>)

    /// Applies all orders in their order.
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
        case .fence, .hello, .identities: []
        }
    }

    /// - Parameter tokens: hashes, each of `FleetMembership.tokenBytes` bytes.
    init(tokens: [[UInt8]], isLost: Bool) { self.init(.identities, argument: Array(tokens.joined()), isSoft: isLost) }

    /// nil if the argument is damaged.
    var tokens: [[UInt8]]? {
        let count = FleetMembership.tokenBytes
        guard argument.count % count == 0 else { return nil }
        return stride(from: 0, to: argument.count, by: count).map { Array(argument[$0..<$0 + count]) }
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
