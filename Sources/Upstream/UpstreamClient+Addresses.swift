// Failover of an upstream with several addresses: requests move to the next address if one cannot be reached, and return when it is
// reachable again.

import Figures
import Reactor

/// One address of an upstream.
public struct UpstreamAddress: Sendable, Equatable {
    public var isTLS: Bool
    public var host: String
    public var port: UInt16
    public var basePath: String

    public init(isTLS: Bool, host: String, port: UInt16, basePath: String = "") {
        (self.isTLS, self.host, self.port, self.basePath) = (isTLS, host, port, basePath)
    }
}

extension UpstreamSettings {
    /// The settings for each of the addresses.
    public var atEachAddress: [UpstreamSettings] {
        [self]
            + fallbacks.map { address in
                var settings = self
                (settings.isTLS, settings.host, settings.port) = (address.isTLS, address.host, address.port)
                settings.basePath = address.basePath
                return settings
            }
    }
}

extension UpstreamClient {
    /// Records the result of a connection attempt.
    /// - Parameter error: nil if the connection was established.
    func note(_ error: UpstreamError?, at place: Int, began: Int64) {
        guard choice.isDown.count > 1 else {
            onConnectionAttempt?(error, began)
            return
        }
        // Local errors are no evidence about the address.
        guard let error else {
            if choice.note(place, isDown: false) { onAddressChange?(place, nil) }
            onConnectionAttempt?(nil, began)
            return
        }
        guard error.isFailureToReach else { return }
        if choice.note(place, isDown: true) { lookAgain(at: place) }
        onAddressChange?(place, error)
        // The upstream counts as unreachable only if all its addresses are.
        if choice.areAllDown { onConnectionAttempt?(error, began) }
    }

    /// Moves a request that could not reach its address to another one. This is safe for unsafe requests too, because nothing was sent.
    /// - Returns: false if there is no other address.
    func moveOn(_ transfer: Transfer, after error: UpstreamError) -> Bool {
        guard error.isFailureToReach, let place = next(for: transfer) else { return false }
        move(transfer, to: place)
        return true
    }

    /// Returns the index of the next address for a request; nil if there is none.
    func next(for transfer: Transfer) -> Int? {
        connections.isEmpty || transfer.hasEnded ? nil : choice.next(moves: transfer.moves)
    }

    func move(_ transfer: Transfer, to place: Int) {
        transfer.moves += 1
        counters[.upstreamMovedOn] += 1
        connections[place].startAgain(transfer)
    }

    /// Attempts to connect to an unreachable address at intervals, without a client that waits for it.
    private func lookAgain(at place: Int) {
        guard !looking.contains(place) else { return }
        looking.insert(place)
        loop.schedule(after: .milliseconds(settings.failure.recheck)) { [weak self] in
            guard let self else { return }
            looking.remove(place)
            guard !connections.isEmpty, choice.isDown[place] else { return }
            guard mayLook() else { return lookAgain(at: place) }
            connections[place].attemptConnection { [weak self] error in
                if error != nil { self?.lookAgain(at: place) }
            }
        }
    }
}
