// What two processes say to each other while one takes over from the other: the messages of both, and how they lie in bytes. Each of the dialogue's
// versions has its own; a process speaks one only.

public enum TakeOverMessage: Sendable, Equatable {
    // MARK: From the new one

    /// The first of all.
    case hello(Greeting)
    /// It can begin at once. It has written nothing.
    /// - Parameter listeners: the places of those that it goes on with, in the order in which they were handed over.
    case prepared(listeners: [Int])
    /// It cannot take over. The old one goes on.
    case failed(String)
    // MARK: From the old one

    /// It goes on by itself.
    case refused(String)
    /// Beside it come the descriptors of its sockets.
    case listener(HandedListener)
    /// Beside it comes a socket that the service manager has handed over.
    case handed(name: String)
    /// Beside it come the lock of the cache directory, and the index in memory.
    case store
    /// Beside it comes the socket at which this dialogue begins.
    case door
    case ticketKeys([UInt8])
    /// All has been handed over: the new one may prepare.
    case offered
    /// The new one has it all from here on, and this one never takes back. Nothing is to be served before `begin`.
    case committed(HandedPosition)
    /// This one accepts no more, and takes what it has stored for stale: no client gets from it what the new one knows to be changed.
    case begin

    // MARK: From either, once the old one has committed

    /// So many of the numbered messages have been followed, and written where they are to be written.
    case acknowledged(UInt64)

    // MARK: From either, numbered by their order

    case modes(PassedModes)
    case faults([PassedFault])
    /// The page of all counts; each later one has larger ones.
    case counts([UInt8])
    case change(PassedChange)

    /// How long each side waits for the other's word; the new one has no longer from what is offered to its own.
    public static let patienceMilliseconds = 5_000

    /// Whether it is counted, and acknowledged.
    public var isNumbered: Bool {
        switch self {
        case .modes, .faults, .counts, .change: true
        default: false
        }
    }
}

/// What a new process is, as far as it concerns taking over.
public struct Greeting: Sendable, Equatable {
    public var dialogue: UInt32
    public var storeFormat: UInt32
    public var process: UInt32
    public var version: String

    /// Of this dialogue. Another number is another language.
    public static let dialogue: UInt32 = 1

    public init(dialogue: UInt32 = Greeting.dialogue, storeFormat: UInt32, process: UInt32, version: String) {
        (self.dialogue, self.storeFormat, self.process, self.version) = (dialogue, storeFormat, process, version)
    }
}

/// One address that is listened on.
public struct HandedListener: Sendable, Equatable {
    /// As the settings name it, and for whom.
    public var wanted: String
    public var isAdmin: Bool
    /// How many descriptors come beside it.
    public var sockets: UInt32

    public init(wanted: String, isAdmin: Bool, sockets: UInt32) { (self.wanted, self.isAdmin, self.sockets) = (wanted, isAdmin, sockets) }
}

/// Where in the files of the store its next record goes: a segment's number and an offset in it. All 0 where there is no store.
public struct HandedPosition: Sendable, Equatable {
    public var segment: UInt64
    public var offset: UInt64

    public init(segment: UInt64 = 0, offset: UInt64 = 0) { (self.segment, self.offset) = (segment, offset) }
}

/// What of the store has changed, as far as it takes something back.
public enum PassedChange: Sendable, Equatable {
    /// An administrator purges. What was asked for before, by the clock of day, is not to be stored.
    case purge(milliseconds: Int64)
    /// A mark: a small item that must not be lost.
    case item(key: [UInt8], metadata: [UInt8], head: [UInt8], body: [UInt8], retention: UInt8)
    case removal(low: UInt64, high: UInt64)
    case staleMark(low: UInt64, high: UInt64)
    case clearing
    case staleAll
}

/// The modes of one API: as they began by the settings, and as they are.
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

    /// Empty for the only one.
    public var api: String
    public var begun: Table
    public var now: Table

    public init(api: String, begun: Table, now: Table) { (self.api, self.begun, self.now) = (api, begun, now) }
}

/// One fault that is injected.
public struct PassedFault: Sendable, Equatable {
    public var number: UInt32
    public var path: String
    public var percent: UInt32
    /// Milliseconds of the machine's clock that is never set.
    public var end: Int64
    /// Milliseconds.
    public var leastDelay: Int64
    public var longestDelay: Int64
    /// Its name, and what it is told beside that: a status, or bytes a second.
    public var kind: String
    public var argument: Int64

    public init(
        number: UInt32, path: String, percent: UInt32, end: Int64, leastDelay: Int64, longestDelay: Int64, kind: String, argument: Int64
    ) {
        (self.number, self.path, self.percent, self.end) = (number, path, percent, end)
        (self.leastDelay, self.longestDelay, self.kind, self.argument) = (leastDelay, longestDelay, kind, argument)
    }
}
