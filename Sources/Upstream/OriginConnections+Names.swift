// Follows where the address's name leads: new connections go there, and those to where it leads no more are used up, and no longer kept.

import Glibc
import Reactor

extension OriginConnections {
    /// The name that is looked up here; nil where others do that, or there is none.
    static func followedName(_ settings: UpstreamSettings) -> String? {
        let isDirect = settings.unixSocket == nil && settings.proxy == nil
        return isDirect && NamedAddress(settings.host) == nil ? settings.host : nil
    }

    private var interval: Duration { settings.resolveInterval }

    /// Where new connections go; empty while that is not known.
    var lastAddresses: [NamedAddress] { name.map { client.settings.names.addresses(of: $0) } ?? [] }

    /// Calls `then` when no look-up of the name is active. The call may come from any thread.
    func whenNameEnded(_ then: @escaping @Sendable () -> Void) {
        if let name { client.settings.names.whenEnded(name, then) } else { then() }
    }

    /// Cause of the failed look-up; nil if unknown.
    var nameFailure: UpstreamCause? { name.flatMap { client.settings.names.failure(of: $0) }.map { .name($0) } }

    /// A connection is made: from now on the name is looked up from time to time.
    func followName() {
        guard let name else { return }
        client.settings.names.refresh(name, interval: interval.wholeMilliseconds, now: loop.time.monotonicMilliseconds)
        guard !isFollowingName else { return }
        isFollowingName = true
        waitForName(name)
    }

    private func waitForName(_ name: String) {
        loop.schedule(after: interval) { [weak self] in
            guard let self, !isClosed else { return }
            retireConnections(of: name)
            tellOfName(name)
            client.settings.names.refresh(name, interval: interval.wholeMilliseconds, now: loop.time.monotonicMilliseconds)
            waitForName(name)
        }
    }

    /// Those that are in use end when they have done with it (`keep`).
    private func retireConnections(of name: String) {
        guard let known = client.settings.names.lately(name), known != knownAddresses else { return }
        knownAddresses = known
        for connection in idle where isGone(connection.peer) { connection.close(.addressGone) }
        for connection in shared where isGone(connection.peer) { connection.drain(.addressGone) }
    }

    /// Whether the name leads there no more.
    func isGone(_ peer: NamedAddress?) -> Bool {
        guard let peer, let knownAddresses else { return false }
        return !knownAddresses.contains(peer)
    }

    /// Where a new connection leads; nil where nobody asks.
    func peer(of stream: ByteStream) -> NamedAddress? { name == nil ? nil : NamedAddress(peerOf: stream.descriptor) }

    private func tellOfName(_ name: String) {
        let hasFailed = client.settings.names.hasFailed(name)
        guard hasFailed != nameHasFailed else { return }
        nameHasFailed = hasFailed
        client.onNameChange?(name, hasFailed)
    }
}
