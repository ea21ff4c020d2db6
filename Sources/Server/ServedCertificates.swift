// The certificates that clients get: read at the start, and again when that is asked for. All of them are taken, or none.

import Administration
import Dispatch
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

    /// The same where there were some before.
    var reloading: String { mistakes.isEmpty ? "there is no memory for them" : description }
}

final class ServedCertificates: Sendable {
    let tickets: TicketKeys
    /// Where files are read, and contexts made of them.
    let queue = DispatchQueue(label: "cistern.certificates")
    private let settings: ServerTLSSettings
    /// Changed by whoever reloads; read for metrics.
    private let state: Mutex<State>

    typealias Asking = @Sendable (CertificateReload) -> Void

    /// Good ones.
    struct Reading: Sendable {
        var certificates: ServerCertificates
        var warnings: [ServerCertificates.Remark]
    }

    private struct State {
        /// What all shards have.
        var reading: Reading
        var reloads = 0
        var failedReloads = 0
        /// They are being read, and shards may have different ones until that is over.
        var isReloading = false
        /// Who wants them to be read, the next time.
        var asking: [Asking] = []
    }

    init(_ settings: ServerTLSSettings, now: Int64) throws(CertificateError) {
        let reading = ServerCertificates.read(settings, now: now)
        guard let certificates = reading.certificates, let tickets = TicketKeys() else {
            throw CertificateError(mistakes: reading.mistakes)
        }
        self.settings = settings
        self.tickets = tickets
        state = Mutex(State(reading: Reading(certificates: certificates, warnings: reading.warnings)))
    }

    var current: ServerCertificates { state.withLock { $0.reading.certificates } }
    var warnings: [ServerCertificates.Remark] { state.withLock { $0.reading.warnings } }
    var counts: (reloads: Int, failed: Int) { state.withLock { ($0.reloads, $0.failedReloads) } }

    // MARK: Reloading, one at a time

    /// - Returns: whether to begin; else who reloads now does it once more.
    func ask(_ then: @escaping Asking) -> Bool {
        state.withLock { state in
            state.asking.append(then)
            defer { state.isReloading = true }
            return !state.isReloading
        }
    }

    func takeAsking() -> [Asking] {
        state.withLock { state in
            defer { state.asking = [] }
            return state.asking
        }
    }

    /// One time is over.
    /// - Returns: whether another is wanted.
    func isAskedAgain() -> Bool {
        state.withLock { state in
            state.isReloading = !state.asking.isEmpty
            return state.isReloading
        }
    }

    /// Reads the files again.
    /// - Returns: what is there to be used from now on, for each shard.
    func read(now: Int64, shards: Int) throws(CertificateError) -> (Reading, [ServerTLS.Prepared]) {
        let reading = ServerCertificates.read(settings, now: now)
        if let certificates = reading.certificates, let prepared = ServerTLS.Prepared.make(certificates, shards: shards) {
            return (Reading(certificates: certificates, warnings: reading.warnings), prepared)
        }
        state.withLock { $0.failedReloads += 1 }
        throw CertificateError(mistakes: reading.mistakes)
    }

    /// All shards have it.
    func take(_ reading: Reading) {
        state.withLock { state in
            state.reading = reading
            state.reloads += 1
        }
    }
}
