// The client for one upstream on one event loop: starts transfers, ends them when a timeout passes, and decides whether a request is sent
// again.

import Figures
import HTTPCore
import Reactor

/// Belongs to one event loop and is used on it only.
public final class UpstreamClient {
    public let settings: UpstreamSettings
    let limits: TransferLimits
    public internal(set) var counters = Figures()
    /// Milliseconds of the loop's clock, as of the last sweep or start.
    private(set) var coarseNow: Int64
    let loop: EventLoop

    private var active: [Transfer] = []
    /// Owned connections that count towards the limit (`OwnedConnection.share`).
    var owned: [OwnedConnection] = []
    /// Requests that get separate connections if HTTP/2 is used.
    var separatedRequests = SeparatedRequests()
    /// The connections of each address, in the configured order; empty after `close`.
    private(set) var connections: [OriginConnections] = []
    var choice: AddressChoice
    /// Indices of unreachable addresses that will be tried again.
    var checking: Set<Int> = []
    private var isSweeping = false
    private var isClosed = false
    /// Whether a connection may ever have been needed.
    private var isUsed = false
    private var retryBudget: RetryBudget
    /// Names, issuer and validity of the certificate that the last failed handshake refused; nil if it refused none. For operators only.
    public internal(set) var refusedCertificate: String?
    /// Called on the loop with the result of a connection attempt: nil, or a failure to reach the upstream. The number is the start of the
    /// attempt in milliseconds of the loop's clock.
    public var onConnectionAttempt: ((UpstreamError?, Int64) -> Void)?
    /// Called on the loop when a connection to any address was established, with the times of its phases.
    public var onConnectionMade: ((TransferTimes) -> Void)?
    /// Called on the loop when an address is found unreachable, with its index and the error, and with nil when it is reachable again.
    public var onAddressChange: ((Int, UpstreamError?) -> Void)?
    /// Called on the loop with true when the look-up of a name starts to fail, and with false when it succeeds again.
    public var onNameChange: ((String, Bool) -> Void)?
    /// Called on the loop when a TLS file has changed, with whether the files can be used. Otherwise the former ones remain in use, and this
    /// is called for each further connection.
    public var onTLSFilesChange: ((UpstreamSettings, Bool) -> Void)?
    /// Returns whether an unreachable address may be tried without a client's request.
    public var mayCheck: () -> Bool = { true }
    /// Called with each request's target. Returns the fault to inject; nil for none.
    public var chooseFault: ((ArraySlice<UInt8>) -> InjectedFault?)?

    /// Precision of the timeouts.
    private static let sweepInterval = Duration.milliseconds(50)

    public init(loop: EventLoop, settings: UpstreamSettings) {
        self.loop = loop
        self.settings = settings
        limits = TransferLimits(settings)
        coarseNow = loop.time.monotonicMilliseconds
        retryBudget = RetryBudget(percent: settings.retryBudget)
        let addresses = settings.atEachAddress
        choice = AddressChoice(count: addresses.count)
        connections = addresses.enumerated().map { OriginConnections(client: self, $1, at: $0, of: settings) }
    }

    deinit {
        // The event loop of a server that is never started never runs `close`: after a failed take-over, or a reload during a stop.
        precondition(isClosed || !isUsed, "an upstream client was dropped without being closed")
    }

    /// Connections that are being established, in use, or idle.
    public var openConnections: Int { connections.reduce(0) { $0 + $1.count } }

    /// Limit on `openConnections`, for all addresses together.
    public var connectionLimit: Int { connections.count * settings.maximumConnections }

    /// Requests with a connection, and requests that wait for one. Each number is the largest among the addresses.
    public var busiest: (running: Int, waiting: Int) {
        connections.reduce((0, 0)) { (max($0.0, $1.waiting.running), max($0.1, $1.waitingCount)) }
    }

    /// Requests that wait for a connection now.
    public var waitingCount: Int { connections.reduce(0) { $0 + $1.waitingCount } }

    /// Starts a request. The receiver is retained until the end. Its callbacks come from the loop; only `transferBegins` may come during
    /// this call.
    /// - Returns: nil if too many requests wait already.
    public func start(_ request: consuming UpstreamRequest, receiver: any TransferReceiver) -> Transfer? {
        loop.assertOnLoop()
        guard !isClosed else { return nil }
        isUsed = true
        coarseNow = max(coarseNow, loop.batchMilliseconds)
        let separation = separatedRequests.isActive(at: coarseNow) ? separation(of: request) : nil
        if separation == .proof {
            request.shares.append(ConnectionShare(.separatedRequests, .connections(settings.maximumConnections / Self.apartShare)))
        }
        let fault = chooseFault?(request.target)
        let delay = fault.map { Int64.random(in: $0.delay) } ?? 0
        let faulty = fault.map { FaultyReceiver(receiver, $0, delay: delay) }
        let transfer = Transfer(client: self, request: request, receiver: faulty ?? receiver, fault: fault, now: coarseNow)
        transfer.isSeparated = separation != nil && fault == nil
        // A response that a fault would delay beyond the timeout is not requested.
        let isSent = fault.map { $0.contactsUpstream && delay < limits.firstByte } ?? true
        if isSent {
            guard !connections.isEmpty, (transfer.request.owned?.home ?? connections[choice.current]).start(transfer) else {
                counters[.upstreamRejected] += 1
                return nil
            }
            retryBudget.earn()
            counters[.upstreamRequests] += 1
        }
        transfer.activeIndex = active.count
        active.append(transfer)
        counters[.upstreamActive] += 1
        transfer.request.owned?.requestBegan()
        scheduleSweep()
        if let fault { counters.labelled.count(.injectedFaults, fault.kind) }
        faulty?.begin(transfer, delay: delay, isSent: isSent)
        return transfer
    }

    /// Divisor of the connection limit. The quotient is the maximum number of connections for requests that are proven to break the HTTP/2
    /// rules.
    private static let apartShare = 8

    private func separation(of request: borrowing UpstreamRequest) -> SeparatedRequests.Evidence? {
        settings.http2 == .off ? nil : separatedRequests.evidence(path: request.pathNumber, client: request.client, at: coarseNow)
    }

    /// Establishes a connection in the background, within the connect timeout, and keeps it for a later request if the limit allows.
    /// - Parameter completion: called on the loop, never during this call, with nil or the error.
    public func attemptConnection(_ completion: @escaping (UpstreamError?) -> Void) {
        loop.assertOnLoop()
        isUsed = true
        connections.first?.attemptConnection(completion)
    }

    /// Decides and counts whether a request is sent again on a new connection, after its connection ended without a line of a response. If
    /// that was a new connection, the upstream may be overloaded, so the retry budget applies.
    /// - Parameter isRefused: whether the upstream states that it did not process the request.
    func mayRepeat(_ transfer: Transfer, onKept: Bool, isUnwritten: Bool, isRefused: Bool = false) -> Bool {
        guard !isClosed, transfer.mayBeRepeated(onKept: onKept, isUnwritten: isUnwritten, isRefused: isRefused) else { return false }
        guard onKept || isRefused || retryBudget.spend() else { return false }
        counters[.upstreamRetries] += 1
        return true
    }

    /// Ends all transfers and connections. Receivers get no more events.
    public func close() {
        loop.assertOnLoop()
        guard !isClosed else { return }
        isClosed = true
        for one in owned { one.upstreamClosed() }
        counters[.upstreamOwned] = 0
        owned = []
        for one in connections { one.close() }
        for transfer in active { transfer.cancel() }
        connections = []
    }

    // MARK: Transfers

    /// Removes a transfer that ends.
    func remove(_ transfer: Transfer) {
        let activeIndex = transfer.activeIndex
        active[activeIndex] = active[active.count - 1]
        active[activeIndex].activeIndex = activeIndex
        active.removeLast()
        counters[.upstreamActive] -= 1
        if transfer.isStream { counters[.streams] -= 1 }
        transfer.request.owned?.requestEnded()
        if transfer.isQueued, transfer.receiver == nil { counters[.upstreamCancelledInQueue] += 1 }
    }

    /// Counts a streaming response.
    /// - Returns: false if the limit on streams is reached.
    func admitStream(_ transfer: Transfer) -> Bool {
        guard transfer.connections?.admitStream(transfer) == true else {
            counters[.streamsRejected] += 1
            return false
        }
        counters[.streams] += 1
        counters[.streamsBegun] += 1
        return true
    }

    // MARK: Timeouts

    private func scheduleSweep() {
        guard !isSweeping else { return }
        isSweeping = true
        loop.schedule(after: Self.sweepInterval) { self.sweep() }
    }

    private func sweep() {
        isSweeping = false
        guard !isClosed else { return }
        coarseNow = loop.time.monotonicMilliseconds
        var overdue: [(Transfer, UpstreamError)] = []
        for transfer in active {
            if let error = transfer.overdue(at: coarseNow) { overdue.append((transfer, error)) }
        }
        for (transfer, error) in overdue { transfer.giveUp(error) }
        for one in connections { one.sweep(at: coarseNow) }
        if !active.isEmpty { scheduleSweep() }
    }
}
