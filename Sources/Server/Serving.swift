// What is served, and with which settings, from one reload to the next. It is created and checked as a whole, and then replaces its
// predecessor.

import Administration
import Downstream
import HTTPCore
import ReverseProxy

struct Serving: Sendable {
    let process: ProcessState
    /// At least one.
    let apis: [ServedAPI]
    let listeners: [ServedListener]
    let interface: AdminInterface
    let pages: OwnPages
    /// nil if no directory for ACME challenges is configured.
    let challenges: AcmeChallenges?
    /// nil if no address uses TLS.
    let certificates: ServedCertificates?
    /// Counts of the APIs and the access log that reloads have replaced.
    var past: ReplacedFigures

    var settings: ProxySettings { process.settings }

    /// Whether the proxy's own pages are served on the addresses for clients.
    var servesOwnPages: Bool { settings.listening.servesOwnPages && settings.listening.adminListeners.isEmpty }

    func addresses(isAdmin: Bool) -> [ListenAddress] { listeners.filter { $0.isAdmin == isAdmin }.map(\.address) }
}

/// The certificates for clients.
struct ServedCertificates: Sendable {
    let tickets: TicketKeys
    let certificates: ServerCertificates
    let warnings: [ServerCertificates.Remark]

    /// - Parameter tickets: returns the session ticket keys of the process.
    /// - Returns: nil if no address uses TLS.
    init?(_ listening: ListeningSettings, _ tickets: () -> TicketKeys?, now: Int64) throws(CertificateError) {
        guard (listening.listeners + listening.adminListeners).contains(where: \.isTLS) else { return nil }
        let reading = ServerCertificates.read(listening.tls, now: now)
        guard let certificates = reading.certificates, let tickets = tickets() else {
            throw CertificateError(mistakes: reading.mistakes)
        }
        (self.tickets, self.certificates, warnings) = (tickets, certificates, reading.warnings)
    }

    /// Files with a new certificate, with its end of validity.
    func renewed(since former: ServedCertificates?) -> [String] {
        let known = Set(former?.certificates.entries.map(\.facts.fingerprint) ?? [])
        guard !known.isEmpty else { return [] }
        return certificates.entries.filter { !known.contains($0.facts.fingerprint) }.map { entry in
            "\(entry.settings.file) (until \(String(decoding: HTTPDate.format(entry.facts.notAfter), as: UTF8.self)))"
        }
    }

    /// TLS contexts, one for each shard.
    func prepared(shards: Int) throws(CertificateError) -> [ServerTLS.Prepared] {
        guard let prepared = ServerTLS.Prepared.make(certificates, shards: shards) else { throw CertificateError(mistakes: []) }
        return prepared
    }
}

public struct CertificateError: Error, CustomStringConvertible {
    public let mistakes: [ServerCertificates.Remark]

    public var description: String {
        guard mistakes.isEmpty else { return mistakes.map(\.description).joined(separator: "; ") }
        return "an address uses https, but tls.certificates is empty or memory is insufficient: set tls.certificates"
    }
}
