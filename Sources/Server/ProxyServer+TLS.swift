// TLS with clients, as far as it concerns all shards: their certificates, the keys of their tickets, and reading the certificates again.

import Addresses
import Administration
import Downstream
import Logging
import Reactor
import ReverseProxy
import Telemetry

extension ProxyServer {
    /// Gives each shard its own of what handshakes are made with.
    func prepareTLS(_ shards: [Shard]) throws(CertificateError) {
        guard let served else { return }
        for shard in shards {
            guard let tls = ServerTLS(served.current, tickets: served.tickets, loop: shard.loop) else {
                throw CertificateError(mistakes: [])
            }
            tls.onFailure = { [logger] failure, peer in
                logger.debug(
                    "a TLS handshake with \(String(decoding: peer.address?.text ?? [], as: UTF8.self)) failed: \(failure.rawValue)")
            }
            shard.connections.tls = tls
        }
    }

    func logCertificates() {
        for warning in served?.warnings ?? [] { logger.warning("\(warning)") }
    }

    /// From then on, each key of tickets is used for half a day. On the first shard's loop.
    func rotateTickets(on shard: Shard) {
        guard let served else { return }
        shard.loop.schedule(after: TicketKeys.rotation) { [weak self] in
            served.tickets.rotate()
            self?.rotateTickets(on: shard)
        }
    }

    /// Reads the certificates again; clients that come from then on get them. From any thread but a loop's.
    /// - Parameter then: called once all shards have them, or with what is wrong with one of them; then all stays as it was.
    package func reloadCertificates(then: @escaping @Sendable (CertificateReload) -> Void) {
        guard let served else { return then(.none) }
        do throws(CertificateError) {
            let certificates = try served.reload(now: wallMilliseconds / 1_000)
            onEachShard {
                _ = $0.shard.connections.tls?.use(certificates)
            } then: { [self] in
                logger.notice("the certificates were read again: \(certificates.entries.count)")
                logCertificates()
                then(.taken(certificates.entries.map { $0.settings.file }, served.warnings.map(\.description)))
            }
        } catch {
            logger.error("the certificates stay as they were: \(error)")
            then(.refused(error.mistakes.map(\.description)))
        }
    }

    func addCertificates(to figures: inout MetricsSnapshot.ClientTLS) {
        guard let served else { return }
        figures.certificates = served.current.entries.map { entry in
            (entry.facts.names.first ?? "", entry.facts.notAfter - wallMilliseconds / 1_000)
        }
        (figures.reloads, figures.failedReloads) = served.counts
    }
}
