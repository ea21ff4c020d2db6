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
    func note(_ error: UpstreamError?, at index: Int, began: Int64) {
        guard choice.isDown.count > 1 else {
            onConnectionAttempt?(error, began)
            return
        }
        // Local errors are no evidence about the address.
        guard let error else {
            if choice.note(index, isDown: false) { onAddressChange?(index, nil) }
            onConnectionAttempt?(nil, began)
            return
        }
        guard error.isFailureToReach else { return }
        if choice.note(index, isDown: true) { checkAgain(at: index) }
        onAddressChange?(index, error)
        // The upstream counts as unreachable only if all its addresses are.
        if choice.areAllDown { onConnectionAttempt?(error, began) }
    }

    /// Returns the index of the next address for a request; nil if there is none.
    func next(for transfer: Transfer) -> Int? {
        connections.isEmpty || transfer.hasEnded ? nil : choice.next(moves: transfer.moves)
    }

    func move(_ transfer: Transfer, to index: Int) {
        transfer.moves += 1
        counters[.upstreamFailovers] += 1
        connections[index].startAgain(transfer)
    }

    /// Attempts to connect to an unreachable address at intervals. No client waits for the result.
    private func checkAgain(at index: Int) {
        guard !checking.contains(index) else { return }
        checking.insert(index)
        loop.schedule(after: .milliseconds(settings.failure.recheck)) { [weak self] in
            guard let self else { return }
            checking.remove(index)
            guard !connections.isEmpty, choice.isDown[index] else { return }
            guard mayCheck() else { return checkAgain(at: index) }
            connections[index].attemptConnection { [weak self] error in
                if error != nil { self?.checkAgain(at: index) }
            }
        }
    }
}
