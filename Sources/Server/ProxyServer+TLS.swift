// TLS with clients, as far as it concerns all shards: their certificates, the keys of their tickets, and reading the certificates again.

import Addresses
import Administration
import Dispatch
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

    /// Reads the certificates again; clients that come from then on get them. Who asks while they are being read gets what comes of the next time.
    /// - Parameter then: called once all shards have them, or with what is wrong with one of them; then all stays as it was.
    package func reloadCertificates(then: @escaping @Sendable (CertificateReload) -> Void) {
        guard let served else { return then(.none) }
        if served.ask(then) { reloadNow(served) }
    }

    private func reloadNow(_ served: ServedCertificates) {
        served.queue.async { [self] in
            let asking = served.takeAsking()
            do throws(CertificateError) {
                let (reading, prepared) = try served.read(now: wallMilliseconds / 1_000, shards: shardCount)
                onEachShard {
                    $0.shard.connections.tls?.use(prepared[$0.shard.number])
                } then: { [self] in
                    served.take(reading)
                    logger.notice("the certificates were read again: \(reading.certificates.entries.count)")
                    logCertificates()
                    let files = reading.certificates.entries.map { $0.settings.file }
                    for then in asking { then(.taken(files, reading.warnings.map(\.description))) }
                    goOnReloading(served)
                }
            } catch {
                logger.error("the certificates stay as they were: \(error.reloading)")
                for then in asking { then(.refused(error.mistakes.isEmpty ? [error.reloading] : error.mistakes.map(\.description))) }
                goOnReloading(served)
            }
        }
    }

    private func goOnReloading(_ served: ServedCertificates) {
        if served.isAskedAgain() { reloadNow(served) }
    }

    func addCertificates(to figures: inout MetricsSnapshot.ClientTLS) {
        guard let served else { return }
        figures.certificates = served.current.entries.map { entry in
            (entry.facts.names.first ?? "", entry.facts.notAfter - wallMilliseconds / 1_000)
        }
        (figures.reloads, figures.failedReloads) = served.counts
    }
}
