// What all APIs and all shards of one process have in common: each has a reference to it, and all of it guards itself.

import Coordination
import Downstream
import FaultInjection
import HTTPCore
import Identity
import Locking
import Logging
import Reactor
import ResponseCache
import Sharing
import Telemetry
import Tracing
import Upstream

/// From one reload of the settings to the next. What lasts longer is handed on.
public final class ProcessState: Sendable {
    /// Of the process. What an API has for itself is in its own (`SharedFlowState`).
    public let settings: ProxySettings
    public let logger: Logger
    public let accessLog: AccessLog?
    /// nil where no spans are recorded.
    public let spans: SpanExporter?
    /// Of this process, whoever exported them.
    public let spanCounts: SpanCounts
    /// nil where nothing is recorded.
    public let recorder: (any ExchangeRecorder)?
    public let connections: ConnectionBudget
    /// nil where one address may have any number.
    let requestsPerAddress: AddressBudget?
    private let addresses: AddressCounts
    /// Upstream connections that belong to clients' connections, by client.
    let ownedConnections: AddressBudget
    private let ownedCounts: AddressCounts
    public let content: ContentBudget
    let sentRequests: SentRequests
    /// What Via and Forwarded tell this process by.
    let instance: String
    /// By which records and counts call APIs.
    let places: APIPlaces
    private let sharedFaults: SharedFaults
    /// The process that takes over, or that this one takes over from, as long as both are there.
    public let peer: PeerProcess
    /// This node, where it is one of a fleet.
    public let fleet: FleetNode?
    let identityTables: IdentityTables
    let adminRefusals: AdminRefusals

    /// - Parameter time: by which the log of the fleet is followed.
    public init(
        _ settings: ProxySettings, logger: Logger, accessLog: AccessLog?, recorder: (any ExchangeRecorder)? = nil, time: any TimeSource
    ) {
        self.settings = settings
        self.recorder = recorder
        self.logger = logger
        self.accessLog = accessLog
        let room = RoomLog(logger, time)
        connections = ConnectionBudget(settings.downstream) { room.note($0) }
        (addresses, ownedCounts) = (AddressCounts(), AddressCounts())
        requestsPerAddress = AddressBudget(settings, addresses)
        ownedConnections = AddressBudget(ownedIn: settings, ownedCounts)
        content = ContentBudget(settings.downstream)
        sentRequests = SentRequests()
        (places, sharedFaults, peer, identityTables) = (APIPlaces(), SharedFaults(), PeerProcess(), IdentityTables())
        adminRefusals = AdminRefusals()
        var generator = SystemRandomNumberGenerator()
        instance = String(generator.next() as UInt64, radix: 36)
        spanCounts = SpanCounts()
        spans = SpanExporter(settings, instance, spanCounts, logger)
        fleet = settings.store.flatMap { [fleet = settings.fleet] store in fleet.map { FleetNode($0, beside: store, logger, time: time) } }
    }

    /// The same process with other settings.
    public init(_ settings: ProxySettings, accessLog: AccessLog?, after former: ProcessState) {
        (self.settings, self.accessLog) = (settings, accessLog)
        (recorder, logger) = (former.recorder, former.logger)
        (connections, content) = (former.connections, former.content)
        (addresses, ownedCounts) = (former.addresses, former.ownedCounts)
        requestsPerAddress = AddressBudget(settings, addresses)
        ownedConnections = AddressBudget(ownedIn: settings, ownedCounts)
        sentRequests = former.sentRequests
        (instance, places, sharedFaults) = (former.instance, former.places, former.sharedFaults)
        (peer, fleet, identityTables) = (former.peer, former.fleet, former.identityTables)
        adminRefusals = former.adminRefusals
        spanCounts = former.spanCounts
        let isSame = settings.tracing == former.settings.tracing
        spans = isSame ? former.spans : SpanExporter(settings, instance, spanCounts, logger)
    }

    /// From now on its limits hold.
    public func limit() {
        connections.use(settings.downstream)
        content.use(settings.downstream)
    }

    public var faults: FaultTable { sharedFaults.table.withLock { $0 } }

    /// Returns what `change` returns, and the faults before and after it.
    public func changeFaults<Result>(
        _ change: (inout FaultTable) -> Result
    ) -> (result: Result, before: FaultTable, after: FaultTable) {
        sharedFaults.table.withLock { faults in
            let before = faults
            let result = change(&faults)
            return (result, before, faults)
        }
    }

    func logRefusal(_ refusal: RequestRejection.Kind, client: RequestClient) {
        logger.debug("refused a request of \(String(decoding: client.text, as: UTF8.self)): \(refusal.rawValue)")
    }
}

/// Which refusals of the administrator's interface get a line in the log: whoever guesses tokens does not fill it.
final class AdminRefusals: Sendable {
    private struct State {
        var lastLine: Int64?
        var unlogged = 0
    }

    /// All shards note theirs.
    private let state = Mutex(State())
    /// Least time between two lines, in milliseconds.
    static let pause: Int64 = 60_000

    /// - Parameter now: milliseconds of the monotonic clock.
    /// - Returns: the number of refusals since the last line; nil if this one gets no line.
    func note(now: Int64) -> Int? {
        state.withLock { state in
            if let last = state.lastLine, now - last < Self.pause {
                state.unlogged += 1
                return nil
            }
            defer { (state.lastLine, state.unlogged) = (now, 0) }
            return state.unlogged
        }
    }
}

/// Changed by the administrator; each shard has a copy.
private final class SharedFaults: Sendable {
    let table = Mutex(FaultTable())
}

/// A number for each API that there has been, which stays its own for as long as the process lives.
final class APIPlaces: Sendable {
    private let names = Mutex<[String]>([])

    func place(of name: String) -> UInt16 {
        names.withLock { names in
            if let place = names.firstIndex(of: name) { return UInt16(clamping: place) }
            names.append(name)
            return UInt16(clamping: names.count - 1)
        }
    }
}

extension AddressBudget {
    /// nil where there is no limit.
    fileprivate convenience init?(_ settings: ProxySettings, _ counts: AddressCounts) {
        self.init(limit: settings.access.requestsPerAddress, trustedProxies: settings.downstream.trustedProxies, counts)
    }

    /// Of upstream connections that belong to clients' connections.
    fileprivate convenience init(ownedIn settings: ProxySettings, _ counts: AddressCounts) {
        self.init(of: OwnedConnection.limitPerClient, trustedProxies: settings.downstream.trustedProxies, counts)
    }
}

extension SpanExporter {
    /// nil where no spans are recorded.
    fileprivate convenience init?(_ settings: ProxySettings, _ instance: String, _ counts: SpanCounts, _ logger: Logger) {
        guard settings.tracing.isOn else { return nil }
        let source = SpanSource(service: settings.tracing.serviceName, version: settings.version, instance: instance)
        let place = settings.tracing.shownEndpoint
        self.init(settings.tracing, source, counts) { event in
            switch event {
            case .failed(let sentence):
                logger.warning("spans cannot be sent to \(place): \(sentence); those that do not fit into the queue are dropped")
            case .isWell: logger.notice("spans are sent to \(place) again")
            }
        }
    }
}
