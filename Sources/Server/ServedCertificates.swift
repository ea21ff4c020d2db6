// The certificates that clients get: read at the start, and again when that is asked for. All of them are taken, or none.

import Downstream
import Locking
import Reactor

/// Why the certificates cannot be used.
package struct CertificateError: Error, CustomStringConvertible {
    package let mistakes: [ServerCertificates.Remark]

    package var description: String {
        mistakes.isEmpty
            ? "tls.certificates is missing, and an address with https needs one" : mistakes.map(\.description).joined(separator: "; ")
    }
}

final class ServedCertificates: Sendable {
    let tickets: TicketKeys
    private let settings: ServerTLSSettings
    /// Changed by whoever reloads; read for metrics.
    private let state: Mutex<State>

    private struct State {
        var certificates: ServerCertificates
        var warnings: [ServerCertificates.Remark]
        var reloads = 0
        var failedReloads = 0
    }

    init(_ settings: ServerTLSSettings, now: Int64) throws(CertificateError) {
        let reading = ServerCertificates.read(settings, now: now)
        guard let certificates = reading.certificates, let tickets = TicketKeys() else {
            throw CertificateError(mistakes: reading.mistakes)
        }
        self.settings = settings
        self.tickets = tickets
        state = Mutex(State(certificates: certificates, warnings: reading.warnings))
    }

    var current: ServerCertificates { state.withLock { $0.certificates } }
    var warnings: [ServerCertificates.Remark] { state.withLock { $0.warnings } }
    var counts: (reloads: Int, failed: Int) { state.withLock { ($0.reloads, $0.failedReloads) } }

    /// Reads the files again.
    /// - Returns: what is to be used from now on.
    func reload(now: Int64) throws(CertificateError) -> ServerCertificates {
        let reading = ServerCertificates.read(settings, now: now)
        guard let certificates = reading.certificates else {
            state.withLock { $0.failedReloads += 1 }
            throw CertificateError(mistakes: reading.mistakes)
        }
        state.withLock { state in
            (state.certificates, state.warnings) = (certificates, reading.warnings)
            state.reloads += 1
        }
        return certificates
    }
}
