// Asks the origin: starts transfers, keeps those that run, ends them when a time-out has passed, and decides whether one is sent again.

import FaultInjection
import Figures
import HTTPCore
import Reactor

public struct UpstreamCounters: Sendable {
    public var figures = Figures()
    /// Connections that ended.
    public var ended: [ConnectionEnd: Int] = [:]
    /// Exchanges over HTTP/2 that ended.
    public var http2Ended: [HTTP2ExchangeEnd: Int] = [:]
    /// Faults that were injected, by `InjectedFault.kind`.
    public var faults = [Int](repeating: 0, count: InjectedFault.kinds.count)

    public init() {}

    public subscript(_ figure: Figure) -> Int {
        get { figures[figure] }
        set { figures[figure] = newValue }
    }

    public mutating func add(_ other: UpstreamCounters) {
        figures.add(other.figures)
        ended.merge(other.ended, uniquingKeysWith: +)
        http2Ended.merge(other.http2Ended, uniquingKeysWith: +)
        for place in faults.indices { faults[place] += other.faults[place] }
    }
}

/// Belongs to one loop and is used on it only.
public final class UpstreamClient {
    public let settings: UpstreamSettings
    let limits: TransferLimits
    public internal(set) var counters = UpstreamCounters()
    /// Milliseconds of the loop's clock, as of the last sweep or start.
    private(set) var coarseNow: Int64
    let loop: EventLoop

    private var active: [Transfer] = []
    /// Those that hold a part of what such connections may have.
    var owned: [OwnedConnection] = []
    /// Requests that get connections of their own, where HTTP/2 is spoken.
    var keptApart = KeptApart()
    /// Those of each address, in their order; empty once it is closed.
    private(set) var connections: [OriginConnections] = []
    var choice: AddressChoice
    /// Places of addresses that are tried again before long.
    var looking: Set<Int> = []
    private var isSweeping = false
    private var isClosed = false
    private var retryBudget: RetryBudget
    /// Names, issuer and validity of the certificate that the last failed handshake refused; nil if it refused none. For operators only.
    public internal(set) var refusedCertificate: String?
    /// Called on the loop when a connection was made, or could not be: with nil, or with a failure to reach the upstream; and with when it
    /// was begun, in milliseconds of the loop's clock.
    public var onConnectionAttempt: ((UpstreamError?, Int64) -> Void)?
    /// Called on the loop when a connection was made, to whichever address: when its phases ended.
    public var onConnectionMade: ((TransferTimes) -> Void)?
    /// Called on the loop whenever an address, named by its place, is found out of reach, and why; and when it is not so any more, with nil.
    public var onAddressChange: ((Int, UpstreamError?) -> Void)?
    /// Called on the loop when looking a name up is found to fail, and when it does not any more.
    public var onNameChange: ((String, Bool) -> Void)?
    /// Asked before an address that is out of reach is tried without a client.
    public var mayLook: () -> Bool = { true }
    /// Called with each request's target: what is injected into it.
    public var chooseFault: ((ArraySlice<UInt8>) -> InjectedFault?)?

    /// How exactly time-outs are kept.
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
        precondition(isClosed, "an upstream client was dropped without being closed")
    }

    /// Whether a connection is there on which another request may go out over HTTP/2.
    var hasOpenHTTP2Connection: Bool { connections.contains { $0.shared.contains(where: \.hasRoom) } }

    /// Connections that are being established, in use, or idle.
    public var openConnections: Int { connections.reduce(0) { $0 + $1.count } }

    /// Limit on `openConnections`, for all addresses together.
    public var connectionLimit: Int { connections.count * settings.maximumConnections }

    /// Requests with a connection, and requests that wait for one. Each number is the maximum over the addresses.
    public var busiest: (running: Int, waiting: Int) {
        connections.reduce((0, 0)) { (max($0.0, $1.runningCount), max($0.1, $1.waitingCount)) }
    }

    /// Requests that wait for a connection now.
    public var waitingCount: Int { connections.reduce(0) { $0 + $1.waitingCount } }

    /// Starts to ask. The receiver is held until the end; callbacks come from the loop, never from within this call.
    /// - Returns: nil where too many requests wait already.
    public func start(_ request: consuming UpstreamRequest, receiver: any TransferReceiver) -> Transfer? {
        loop.assertOnLoop()
        guard !isClosed else { return nil }
        coarseNow = max(coarseNow, loop.batchMilliseconds)
        let isKeptApart = keptApart.isEmpty ? false : isKeptApart(request)
        if isKeptApart { request.shares.append(ConnectionShare(.keptApart, .connections(settings.maximumConnections / Self.apartShare))) }
        if let fault = chooseFault?(request.target) { return start(request, receiver, under: fault) }
        let transfer = Transfer(client: self, request: request, receiver: receiver, now: coarseNow)
        transfer.isKeptApart = isKeptApart
        return run(transfer) ? transfer : nil
    }

    /// Of the connections, requests that are kept apart have one of eight.
    private static let apartShare = 8

    private func isKeptApart(_ request: borrowing UpstreamRequest) -> Bool {
        settings.http2 != .off && keptApart.holds(path: request.pathNumber, client: request.client, at: coarseNow)
    }

    private func start(_ request: consuming UpstreamRequest, _ receiver: any TransferReceiver, under fault: InjectedFault) -> Transfer? {
        let delay = Int64.random(in: fault.delay)
        let faulty = FaultyReceiver(receiver, fault, delay: delay)
        let transfer = Transfer(client: self, request: request, receiver: faulty, fault: fault, now: coarseNow)
        // What would come too late need not be asked for.
        let isAsked = fault.asksUpstream && delay < limits.firstByte
        if isAsked {
            guard run(transfer) else { return nil }
        } else {
            keep(transfer)
        }
        counters.faults[fault.kind] += 1
        faulty.begin(transfer, delay: delay, isAsked: isAsked)
        return transfer
    }

    /// Returns false where too many wait.
    private func run(_ transfer: Transfer) -> Bool {
        guard !connections.isEmpty, (transfer.request.owned?.home ?? connections[choice.current]).start(transfer) else {
            counters[.upstreamTurnedAway] += 1
            return false
        }
        retryBudget.earn()
        counters[.upstreamRequests] += 1
        keep(transfer)
        return true
    }

    /// Until it ends.
    private func keep(_ transfer: Transfer) {
        transfer.place = active.count
        active.append(transfer)
        counters[.upstreamActive] += 1
        transfer.request.owned?.requestBegan()
        startSweeping()
    }

    /// Makes a connection in the background, within the time-out for connecting, and keeps it for a later request where there is room.
    /// - Parameter completion: called on the loop, never from within this call: with nil, or with why none came to be.
    public func attemptConnection(_ completion: @escaping (UpstreamError?) -> Void) {
        loop.assertOnLoop()
        connections.first?.attemptConnection(completion)
    }

    /// Whether a request whose connection ended without a line of a response is sent once more, on a new one; taken as decided. Where the
    /// connection was a new one the upstream may be in trouble: the budget bounds what is added to that.
    /// - Parameter isRefused: the upstream says that it has done nothing with it.
    func mayRepeat(_ transfer: Transfer, onKept: Bool, isUnwritten: Bool, isRefused: Bool = false) -> Bool {
        guard !isClosed, transfer.mayBeRepeated(onKept: onKept, isUnwritten: isUnwritten, isRefused: isRefused) else { return false }
        guard onKept || isRefused || (settings.retries && retryBudget.spend()) else { return false }
        counters[.upstreamRetries] += 1
        return true
    }

    /// Ends everything; receivers hear nothing more.
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

    /// It ends.
    func remove(_ transfer: Transfer) {
        let place = transfer.place
        active[place] = active[active.count - 1]
        active[place].place = place
        active.removeLast()
        counters[.upstreamActive] -= 1
        if transfer.isStream { counters[.streams] -= 1 }
        transfer.request.owned?.requestEnded()
        if transfer.isQueued, transfer.receiver == nil { counters[.upstreamLeftQueue] += 1 }
    }

    /// - Returns: false where there is no room for one more stream.
    func admitStream(_ transfer: Transfer) -> Bool {
        guard transfer.connections?.admitStream(transfer) == true else {
            counters[.streamsTurnedAway] += 1
            return false
        }
        counters[.streams] += 1
        counters[.streamsBegun] += 1
        return true
    }

    // MARK: Time-outs

    private func startSweeping() {
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
        if !active.isEmpty { startSweeping() }
    }
}
