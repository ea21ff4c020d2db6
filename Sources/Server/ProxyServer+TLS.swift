// TLS with clients, as far as all shards share it: ticket keys, and log lines and metrics about certificates and handshakes.

import Addresses
import Downstream
import Figures
import Logging
import Reactor
import ReverseProxy

extension ProxyServer {
    /// Handles failed handshakes. The closure does not retain the server, because the server retains the shards, which hold the closure.
    var logHandshake: @Sendable (HandshakeFailure, PeerAddress) -> Void {
        { [logger] failure, peer in
            logger.debug("a TLS handshake with \(String(decoding: peer.address?.text ?? [], as: UTF8.self)) failed: \(failure.rawValue)")
        }
    }

    func logCertificates(_ serving: Serving) {
        for warning in serving.certificates?.warnings ?? [] { logger.warning("\(warning)") }
    }

    /// Rotates the ticket keys twice a day from now on. Must be called on the first shard's loop.
    func rotateTickets(on shard: Shard) {
        shard.loop.schedule(after: TicketKeys.rotation) { [weak self] in
            self?.ticketKeys()?.rotate()
            self?.rotateTickets(on: shard)
        }
    }

    func addCertificates(_ served: ServedCertificates?, to snapshot: inout MetricsSnapshot) {
        let (taken, refused) = reloads.withLock { ($0.certificates, $0.failedCertificates) }
        snapshot.figures.labelled.count(.tlsReloads, 0, by: UInt64(taken))
        snapshot.figures.labelled.count(.tlsReloads, 1, by: UInt64(refused))
        guard let served else { return }
        snapshot.clientTLS.certificates = served.certificates.entries.map { entry in
            (entry.facts.names.first ?? "", entry.facts.notAfter - wallMilliseconds / 1_000)
        }
    }
}
