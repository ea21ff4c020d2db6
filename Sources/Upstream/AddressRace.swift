// Connects to the best address of a name (RFC 8305 §5). If an address fails, the next one is tried at once. If it is silent, the next one is
// tried beside it. libcurl gets one address at a time: its own order between the addresses of one family needs a thread that polls, and up
// to half of the connect timeout for a silent address.

import Reactor

/// Belongs to one event loop and is used on it only.
final class AddressRace {
    private struct Entrant {
        let address: NamedAddress?
        let task: CurlConnector.Task
    }

    private let connections: OriginConnections
    private let completion: CurlConnector.Completion
    private var left: ArraySlice<NamedAddress?>
    private var running: [Entrant] = []
    private var replaced: Set<NamedAddress> = []
    private var timer: LoopTimer?
    private var failure: UpstreamError?
    private var hasEnded = false
    /// Time until the next address is tried beside a silent one.
    private let patience: Duration

    /// Maximum number of addresses that are tried concurrently.
    static let runningAtMost = 16
    private static let longestPatience = Duration.milliseconds(250)

    /// - Parameters:
    ///   - addresses: addresses of the name in order of preference; empty to let libcurl resolve the host.
    ///   - completion: called once, never during this call, and not after `cancel`.
    init(_ connections: OriginConnections, to addresses: [NamedAddress], _ completion: @escaping CurlConnector.Completion) {
        (self.connections, self.completion) = (connections, completion)
        left = addresses.isEmpty ? [nil] : addresses.map(Optional.some)[...]
        // Half of the time remains for the last address.
        patience = min(Self.longestPatience, connections.settings.connectTimeout / 2 / min(left.count, Self.runningAtMost))
        tryNext()
    }

    /// Whether the host has been resolved.
    var hasResolved: Bool { running.allSatisfy { $0.address != nil || $0.task.hasResolved } }

    /// Cancels all tasks. The completion is not called.
    func cancel() {
        hasEnded = true
        timer?.cancel()
        for entrant in running { connections.connector.release(entrant.task) }
        running = []
    }

    /// Cancels all tasks after the connect timeout.
    func timeOut() {
        for case let address? in running.map(\.address) { connections.addressOrder.noteFailure(of: address, at: now) }
        cancel()
    }

    private var now: Int64 { connections.loop.time.monotonicMilliseconds }

    private func tryNext() {
        timer?.cancel()
        guard let address = left.popFirst() else { return }
        let task = connections.connector.connect(to: address) { [self] in taskEnded(address, $0) }
        guard let task else {
            return connections.loop.atEndOfBatch { [self] in taskEnded(address, .failure(.proxyInternalError)) }
        }
        running.append(Entrant(address: address, task: task))
        guard let address, !left.isEmpty else { return }
        timer = connections.loop.schedule(after: patience) { [weak self] in
            guard let self else { return }
            connections.addressOrder.noteFailure(of: address, at: now)
            if running.count == Self.runningAtMost || !connections.mayRace { replaceOldest() }
            tryNext()
        }
    }

    /// Cancels the oldest attempt, so that the next address can be tried. The address may be slow, so it is tried once more at the end.
    private func replaceOldest() {
        let oldest = running.removeFirst()
        connections.connector.release(oldest.task)
        if let address = oldest.address, replaced.insert(address).inserted { left.append(address) }
    }

    private func taskEnded(_ address: NamedAddress?, _ result: Result<CurlConnector.Connected, UpstreamError>) {
        guard !hasEnded else { return }
        running.removeAll { $0.address == address }
        switch result {
        case .success:
            // With TLS, the handshake decides.
            if let address, !connections.settings.isTLS { connections.addressOrder.noteSuccess(of: address) }
            cancel()
            completion(result)
        case .failure(let error):
            if let address, error.isFailureToReach { connections.addressOrder.noteFailure(of: address, at: now) }
            // An address of a family without a route says less than one that refuses, and a local error nothing.
            if failure?.isOwn ?? true || failure?.kind == .destinationIPUnroutable { failure = error }
            tryNext()
            guard running.isEmpty, left.isEmpty else { return }
            cancel()
            completion(.failure(failure ?? error))
        }
    }
}

/// Remembers which addresses have failed, so that new connections try them last. Pure; times in milliseconds.
struct AddressOrder {
    /// For each address that has failed, the time from which a connection tries it in its usual order again.
    private var failed: [NamedAddress: Int64] = [:]

    static let pause: Int64 = 30_000

    mutating func noteFailure(of address: NamedAddress, at now: Int64) { failed[address] = now + Self.pause }

    mutating func noteSuccess(of address: NamedAddress) { if !failed.isEmpty { failed[address] = nil } }

    /// Returns the addresses in the order in which a new connection tries them. After the pause of a failed address, only one connection
    /// tries it first.
    /// - Parameter known: all addresses of the name; others are forgotten.
    mutating func order(_ addresses: [NamedAddress], of known: [NamedAddress], at now: Int64) -> [NamedAddress] {
        guard !failed.isEmpty else { return addresses }
        var (first, last): ([NamedAddress], [NamedAddress]) = ([], [])
        for address in addresses {
            if let end = failed[address], now < end { last.append(address) } else { first.append(address) }
        }
        if let address = first.first, failed[address] != nil { failed[address] = now + Self.pause }
        if failed.count > known.count { failed = failed.filter { known.contains($0.key) } }
        return first + last
    }
}
