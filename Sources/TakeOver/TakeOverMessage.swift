// The messages between two processes while one takes over from the other, and their serialization. Each version of the dialogue has its own
// messages; a process supports one version only.

public enum TakeOverMessage: Sendable, Equatable {
    // MARK: From the new process

    /// The first message.
    case hello(Greeting)
    /// The new process is ready to begin. It has written nothing.
    /// - Parameter listeners: indices of the listeners that it uses, in the order in which they were handed over.
    case prepared(listeners: [Int])
    /// The new process cannot take over. The old one continues.
    case failed(String)
    // MARK: From the old process

    /// The old process refuses and continues.
    case refused(String)
    /// Accompanied by the descriptors of the listener's sockets.
    case listener(HandedListener)
    /// Accompanied by a socket that the service manager has passed.
    case activated(name: String)
    /// Accompanied by the lock of the cache directory and the index in memory.
    case store
    /// Accompanied by the listening socket of this dialogue.
    case takeOverListener
    case ticketKeys([UInt8])
    /// All parts have been handed over. The new process may prepare.
    case offered
    /// The new process owns everything from now on; the old one cannot cancel the take-over. Nothing may be served before `begin`.
    case committed(HandedPosition)
    /// The old process accepts no more connections and treats its stored responses as stale, so that no client receives an outdated
    /// response from it.
    case begin

    // MARK: From either, after the commit

    /// This number of numbered messages was applied, and written where necessary.
    case acknowledged(UInt64)

    // MARK: From either, numbered in order

    case modes(PassedModes)
    case faults([PassedFault])
    /// The page of all counts. Counts only increase from page to page.
    case counts([UInt8])
    case change(PassedChange)

    /// Maximum time in milliseconds that each side waits for the other. The new process has this time from the offer to its response.
    public static let patienceMilliseconds = 5_000

    /// Whether the message is numbered and acknowledged.
    public var isNumbered: Bool {
        switch self {
        case .modes, .faults, .counts, .change: true
        default: false
        }
    }
}

/// Properties of the new process that are relevant to a take-over.
public struct Greeting: Sendable, Equatable {
    public var dialogue: UInt32
    public var storeFormat: UInt32
    public var process: UInt32
    public var version: String

    /// Version of this dialogue. Processes with different versions cannot communicate.
    public static let dialogue: UInt32 = 1

    public init(dialogue: UInt32 = Greeting.dialogue, storeFormat: UInt32, process: UInt32, version: String) {
        (self.dialogue, self.storeFormat, self.process, self.version) = (dialogue, storeFormat, process, version)
    }

    /// Whether the process has this version or a later one, and so can read all of its messages.
    public func isAtLeast(_ version: String) -> Bool {
        let numbers = [self.version, version].map { $0.split(separator: ".").map { Int($0.prefix { $0.isNumber }) ?? 0 } }
        return !numbers[0].lexicographicallyPrecedes(numbers[1])
    }
}

public struct HandedListener: Sendable, Equatable {
    /// The address as in the settings, and whether it is an admin listener.
    public var wanted: String
    public var isAdmin: Bool
    /// Number of descriptors that accompany the message.
    public var sockets: UInt32

    public init(wanted: String, isAdmin: Bool, sockets: UInt32) { (self.wanted, self.isAdmin, self.sockets) = (wanted, isAdmin, sockets) }
}

/// Position of the store's next record: number of the segment, and offset in it. Both are 0 without a store.
public struct HandedPosition: Sendable, Equatable {
    public var segment: UInt64
    public var offset: UInt64

    public init(segment: UInt64 = 0, offset: UInt64 = 0) { (self.segment, self.offset) = (segment, offset) }
}

/// A change that ends the use of stored items: in the store, or of the users of tokens.
public enum PassedChange: Sendable, Equatable {
    /// An administrator's purge. Responses to requests sent before this time of the wall clock must not be stored.
    case purge(milliseconds: Int64)
    /// A mark: a small item that must not be lost.
    case item(key: [UInt8], metadata: [UInt8], head: [UInt8], body: [UInt8], retention: UInt8)
    case removal(low: UInt64, high: UInt64)
    case staleMark(low: UInt64, high: UInt64)
    case clearing
    case staleAll
    /// A write may have changed the users of these tokens. Sent by the old process only, and only to its version or a later one, because
    /// former versions cannot read it.
    /// - Parameter isLost: whether no response arrived, so that the upstream may still process the write.
    case identities(tokens: [[UInt8]], isLost: Bool)
}

/// The modes of one API: the initial ones of the settings, and the current ones.
public struct PassedModes: Sendable, Equatable {
    public struct Table: Sendable, Equatable {
        public var all: String
        /// By the names of routes.
        public var routes: [String: String]
        /// Longest prefix first.
        public var prefixes: [Prefix]

        public struct Prefix: Sendable, Equatable {
            public var prefix: String
            public var mode: String

            public init(prefix: String, mode: String) { (self.prefix, self.mode) = (prefix, mode) }
        }

        public init(all: String, routes: [String: String] = [:], prefixes: [Prefix] = []) {
            (self.all, self.routes, self.prefixes) = (all, routes, prefixes)
        }
    }

    /// Name of the API; empty if there is only one.
    public var api: String
    public var initial: Table
    public var now: Table

    public init(api: String, initial: Table, now: Table) { (self.api, self.initial, self.now) = (api, initial, now) }
}

public struct PassedFault: Sendable, Equatable {
    public var number: UInt32
    public var path: String
    public var percent: UInt32
    /// Milliseconds of the machine's monotonic clock.
    public var end: Int64
    /// Milliseconds.
    public var leastDelay: Int64
    public var longestDelay: Int64
    /// Name of the kind, and its parameter: a status, or bytes per second.
    public var kind: String
    public var argument: Int64

    public init(
        number: UInt32, path: String, percent: UInt32, end: Int64, leastDelay: Int64, longestDelay: Int64, kind: String, argument: Int64
    ) {
        (self.number, self.path, self.percent, self.end) = (number, path, percent, end)
        (self.leastDelay, self.longestDelay, self.kind, self.argument) = (leastDelay, longestDelay, kind, argument)
    }
}
