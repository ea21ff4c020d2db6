// Thread-safe state that all APIs and shards of a process share.

import Dispatch
import Downstream
import Figures
import HTTPCore
import Identity
import Logging
import Reactor
import ResponseCache
import Tracing
import Upstream

/// Valid until the next reload of the settings. Longer-lived state is passed to the next instance.
public final class ProcessState: Sendable {
    /// Settings of the process. Those of each API are in `APIState`.
    public let settings: ProxySettings
    public let logger: Logger
    public let accessLog: AccessLog?
    /// Lines on the terminal; nil without a terminal.
    public let requestLines: RequestLines?
    /// nil if no spans are recorded.
    public let spans: SpanExporter?
    /// Counts of the process, over all exporters.
    public let spanCounts: SpanCounts
    /// nil if no recording is active.
    public let recorder: (any ExchangeRecorder)?
    public let connections: ConnectionBudget
    /// nil if the number of requests per address is not limited.
    let requestsPerAddress: AddressBudget?
    private let addresses: AddressCounts
    /// Number of upstream connections that client connections own, by client.
    let ownedConnections: AddressBudget
    private let ownedCounts: AddressCounts
    public let content: ContentBudget
    public let responses: ResponseMemory
    let sentRequests: SentRequests
    /// Identifies this process in Via and Forwarded.
    let instance: String
    /// Numbers of APIs in records and counters.
    let apiIndices: APIIndices
    /// The current faults, which an administrator may change. Each shard has a copy.
    private let faultTable: Mutex<FaultTable>
    /// The link to the other process during a take-over.
    public let peer: PeerProcess
    /// nil if there is no fleet.
    let fleet: FleetMembership?
    let identityTables: IdentityTables
    private let time: any TimeSource
    /// For the lines about refused requests to the admin interface, so that guessing tokens does not flood the log.
    let adminRefusals: LogInterval

    public init(
        _ settings: ProxySettings, logger: Logger, accessLog: AccessLog?, requestLines: RequestLines? = nil,
        recorder: (any ExchangeRecorder)?, fleet: FleetMembership?, time: any TimeSource
    ) {
        (self.settings, self.fleet, self.requestLines) = (settings, fleet, requestLines)
        self.recorder = recorder
        self.logger = logger
        self.accessLog = accessLog
        let capacityLog = CapacityLog(logger, time)
        connections = ConnectionBudget(settings.downstream) { capacityLog.note($0) }
        (addresses, ownedCounts) = (AddressCounts([:]), AddressCounts([:]))
        requestsPerAddress = AddressBudget(settings, addresses)
        ownedConnections = AddressBudget(ownedIn: settings, ownedCounts)
        content = ContentBudget(settings.downstream)
        responses = ResponseMemory(limitBytes: settings.responseMemoryBytes)
        sentRequests = SentRequests()
        (apiIndices, faultTable, peer, identityTables) = (APIIndices(), Mutex(FaultTable()), PeerProcess(), IdentityTables())
        adminRefusals = LogInterval()
        self.time = time
        var generator = SystemRandomNumberGenerator()
        instance = String(generator.next() as UInt64, radix: 36)
        spanCounts = SpanCounts()
        spans = SpanExporter(settings, instance, spanCounts, logger)
    }

    /// Creates the state that follows `former` after a reload.
    public init(_ settings: ProxySettings, accessLog: AccessLog?, after former: ProcessState) {
        (self.settings, self.accessLog) = (settings, accessLog)
        (recorder, logger, requestLines) = (former.recorder, former.logger, former.requestLines)
        (connections, content, responses) = (former.connections, former.content, former.responses)
        (addresses, ownedCounts) = (former.addresses, former.ownedCounts)
        requestsPerAddress = AddressBudget(settings, addresses)
        ownedConnections = AddressBudget(ownedIn: settings, ownedCounts)
        sentRequests = former.sentRequests
        (instance, apiIndices, faultTable) = (former.instance, former.apiIndices, former.faultTable)
        (peer, fleet, identityTables) = (former.peer, former.fleet, former.identityTables)
        (adminRefusals, time) = (former.adminRefusals, former.time)
        spanCounts = former.spanCounts
        let isSame = settings.tracing == former.settings.tracing
        spans = isSame ? former.spans : SpanExporter(settings, instance, spanCounts, logger)
    }

    /// Applies the limits of these settings to connections and content.
    public func limit() {
        connections.use(settings.downstream)
        content.use(settings.downstream)
    }

    /// Invalidates look-up results after a write at another node.
    /// - Parameters:
    ///   - tokens: hashes of the tokens of the write; nil if it may have had any token.
    ///   - isLost: whether the upstream may still process the write.
    public func followWrite(with tokens: [[UInt8]]?, isLost: Bool) {
        for table in identityTables.followWrite(with: tokens, isLost: isLost, now: time.monotonicMilliseconds) {
            Self.endLosses(in: table, after: IdentityWrite.lossMilliseconds, time)
        }
    }

    private static func endLosses(in table: LookedUpIdentities, after milliseconds: Int64, _ time: any TimeSource) {
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + .milliseconds(Int(milliseconds))) {
            if let next = table.endLosses(now: time.monotonicMilliseconds) { endLosses(in: table, after: next, time) }
        }
    }

    public var faults: FaultTable { faultTable.withLock { $0 } }

    /// Returns the result of `change`, and the faults before and after it.
    public func changeFaults<Result>(
        _ change: (inout FaultTable) -> Result
    ) -> (result: Result, before: FaultTable, after: FaultTable) {
        faultTable.withLock { faults in
            let before = faults
            let result = change(&faults)
            return (result, before, faults)
        }
    }

    func logRefusal(_ refusal: RequestRejection.Kind, client: RequestClient) {
        logger.debug("refused a request from \(String(decoding: client.text, as: UTF8.self)): \(refusal.rawValue)")
    }
}

/// Limits similar log lines to one a minute.
final class LogInterval: Sendable {
    /// Accessed by all shards: the time of the last line in milliseconds, and the number of events since.
    private let state = Mutex<(last: Int64?, events: Int)>((nil, 0))

    private static let milliseconds: Int64 = 60_000

    /// - Parameters:
    ///   - events: number of events to report.
    ///   - now: milliseconds of the monotonic clock.
    /// - Returns: the number of earlier events since the last line; nil if these events get no line.
    func note(_ events: Int = 1, now: Int64) -> Int? {
        state.withLock { state in
            if let last = state.last, now - last < Self.milliseconds {
                state.events += events
                return nil
            }
            defer { state = (now, 0) }
            return state.events
        }
    }
}

/// Assigns a number to each API name. The number does not change while the process runs.
final class APIIndices: Sendable {
    private let names = Mutex<[String]>([])

    func index(of name: String) -> UInt16 {
        names.withLock { names in
            if let index = names.firstIndex(of: name) { return UInt16(clamping: index) }
            names.append(name)
            return UInt16(clamping: names.count - 1)
        }
    }
}

extension AddressBudget {
    /// Returns nil if there is no limit.
    fileprivate convenience init?(_ settings: ProxySettings, _ counts: AddressCounts) {
        let limit = settings.access.requestsPerAddress
        guard limit > 0 else { return nil }
        self.init(of: limit, trustedProxies: settings.downstream.trustedProxies, counts)
    }

    /// Budget of upstream connections that client connections own.
    fileprivate convenience init(ownedIn settings: ProxySettings, _ counts: AddressCounts) {
        self.init(of: OwnedConnection.limitPerClient, trustedProxies: settings.downstream.trustedProxies, counts)
    }
}

extension SpanExporter {
    /// Returns nil if no spans are recorded.
    fileprivate convenience init?(_ settings: ProxySettings, _ instance: String, _ counts: SpanCounts, _ logger: Logger) {
        guard settings.tracing.isOn else { return nil }
        let source = SpanSource(service: settings.tracing.serviceName, version: settings.version, instance: instance)
        let endpoint = settings.tracing.shownEndpoint
        self.init(settings.tracing, source, counts) { event in
            switch event {
            case .failed(let sentence):
                logger.warning("spans cannot be sent to \(endpoint): \(sentence); those that do not fit into the queue are dropped")
            case .recovered: logger.notice("spans are sent to \(endpoint) again")
            }
        }
    }
}
