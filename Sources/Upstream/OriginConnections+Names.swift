// Tracks the addresses of a DNS name. New connections use the current addresses; connections to former addresses finish their requests and
// are closed.

import Glibc
import Reactor

extension OriginConnections {
    /// The name that must be resolved regularly; nil if the host is an IP address, or if a proxy or Unix socket is used.
    static func followedName(_ settings: UpstreamSettings) -> String? {
        let isDirect = settings.unixSocket == nil && settings.proxy == nil
        return isDirect && NamedAddress(settings.host) == nil ? settings.host : nil
    }

    private var interval: Duration { settings.resolveInterval }

    /// Addresses for new connections; empty while they are unknown.
    var lastAddresses: [NamedAddress] { name.map { client.settings.names.addresses(of: $0) } ?? [] }

    /// Addresses for a new connection, in the order in which it tries them: those that its request does not exclude, or all if it excludes
    /// each.
    func addresses(without excluded: [NamedAddress]) -> [NamedAddress] {
        let known = lastAddresses
        let others = excluded.isEmpty ? known : known.filter { !excluded.contains($0) }
        return addressOrder.order(others.isEmpty ? known : others, of: known, at: loop.time.monotonicMilliseconds)
    }

    /// Whether an attempt may try another address beside a silent one, instead of in its place. The sockets count like connections, so that
    /// a name with many silent addresses uses no more descriptors. A few are always permitted.
    var mayRace: Bool { count - attempts.count + connector.taskCount < max(settings.maximumConnections, 8) }

    /// Whether a request tries another address of the name after its connection attempt has failed.
    func mayTryOther(_ transfer: Transfer, after attempt: ConnectionAttempt) -> Bool {
        transfer.exclude(attempt.peer) && lastAddresses.contains { !transfer.failedAddresses.contains($0) }
    }

    /// Calls `then` when no look-up of the name is active. The call may come from any thread.
    func whenNameEnded(_ then: @escaping @Sendable () -> Void) {
        if let name { client.settings.names.whenEnded(name, then) } else { then() }
    }

    /// Cause of the failed look-up; nil if unknown.
    var nameFailure: UpstreamCause? { name.flatMap { client.settings.names.failure(of: $0) }.map { .name($0) } }

    /// Starts regular look-ups of the name when a connection is established. While no address is known, each connection starts one.
    func followName() {
        guard let name else { return }
        let interval = lastAddresses.isEmpty ? 0 : interval.wholeMilliseconds
        client.settings.names.refresh(name, interval: interval, now: loop.time.monotonicMilliseconds)
        guard !isFollowingName else { return }
        isFollowingName = true
        waitForName(name)
    }

    private func waitForName(_ name: String) {
        loop.schedule(after: interval) { [weak self] in
            guard let self, !isClosed else { return }
            retireConnections(of: name)
            reportName(name)
            client.settings.names.refresh(name, interval: interval.wholeMilliseconds, now: loop.time.monotonicMilliseconds)
            waitForName(name)
        }
    }

    /// Closes idle connections to former addresses. Connections in use are closed when they become idle (`keep`).
    private func retireConnections(of name: String) {
        guard let known = client.settings.names.lately(name), known != knownAddresses else { return }
        knownAddresses = known
        for connection in idle where isGone(connection.peer) { connection.close(.addressGone) }
        for connection in multiplexed where isGone(connection.peer) { connection.drain(.addressGone) }
    }

    /// Whether the name no longer resolves to this address.
    func isGone(_ peer: NamedAddress?) -> Bool {
        guard let peer, let knownAddresses else { return false }
        return !knownAddresses.contains(peer)
    }

    /// The remote address of a new connection; nil if no name is tracked.
    func peer(of stream: ByteStream) -> NamedAddress? { name == nil ? nil : NamedAddress(peerOf: stream.descriptor) }

    private func reportName(_ name: String) {
        let hasFailed = client.settings.names.hasFailed(name)
        guard hasFailed != nameHasFailed else { return }
        nameHasFailed = hasFailed
        client.onNameChange?(name, hasFailed)
    }
}
