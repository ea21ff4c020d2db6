// Where an upstream has several addresses: requests go on to the next one where one cannot be reached, and return when it can be again.

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
    /// The same at each of its addresses.
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
    /// What an attempt to connect has told.
    /// - Parameter error: nil where there is a connection now.
    func note(_ error: UpstreamError?, at place: Int, began: Int64) {
        guard choice.isDown.count > 1 else {
            onConnectionAttempt?(error, began)
            return
        }
        // Our own trouble says nothing of the address.
        guard let error else {
            if choice.note(place, isDown: false) { onAddressChange?(place, nil) }
            onConnectionAttempt?(nil, began)
            return
        }
        guard error.isFailureToReach else { return }
        if choice.note(place, isDown: true) { lookAgain(at: place) }
        onAddressChange?(place, error)
        // As long as one can be reached, the upstream can be.
        if choice.areAllDown { onConnectionAttempt?(error, began) }
    }

    /// The request could not reach its address: it goes on to another, whatever it is, since nothing of it was sent.
    /// - Returns: false where there is none.
    func moveOn(_ transfer: Transfer, after error: UpstreamError) -> Bool {
        guard error.isFailureToReach, let place = next(for: transfer) else { return false }
        move(transfer, to: place)
        return true
    }

    /// The place of the address that it goes on to; nil where there is none.
    func next(for transfer: Transfer) -> Int? {
        connections.isEmpty || transfer.hasEnded ? nil : choice.next(moves: transfer.moves)
    }

    func move(_ transfer: Transfer, to place: Int) {
        transfer.moves += 1
        counters[.upstreamMovedOn] += 1
        connections[place].startAgain(transfer)
    }

    /// From time to time, without a client that would wait for it.
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
