// What is served, and how, from one reload to the next: made whole, checked, and then put in the place of what was served before.

import Administration
import Downstream
import HTTPCore
import Logging
import ReverseProxy

struct Serving: Sendable {
    let process: ProcessState
    /// One at least.
    let apis: [ServedAPI]
    let listeners: [ServedListener]
    let interface: AdminInterface
    let pages: OwnPages
    /// nil where no ACME client puts challenges anywhere.
    let challenges: AcmeChallenges?
    /// nil where no address speaks TLS.
    let certificates: ServedCertificates?
    /// What was counted of APIs as they were before.
    var past: PastFigures

    var settings: ProxySettings { process.settings }

    /// Whether the own pages are on the proxy's own addresses.
    var servesOwnPages: Bool { settings.listening.servesOwnPages && settings.listening.adminListeners.isEmpty }

    func addresses(isAdmin: Bool) -> [ListenAddress] { listeners.filter { $0.isAdmin == isAdmin }.map(\.address) }
}

/// The certificates that clients get, as they were read.
struct ServedCertificates: Sendable {
    let tickets: TicketKeys
    let certificates: ServerCertificates
    let warnings: [ServerCertificates.Remark]

    /// - Parameter tickets: makes the process's keys of tickets, or has made them already.
    /// - Returns: nil where no address speaks TLS.
    init?(_ listening: ListeningSettings, _ tickets: () -> TicketKeys?, now: Int64) throws(CertificateError) {
        guard (listening.listeners + listening.adminListeners).contains(where: \.isTLS) else { return nil }
        let reading = ServerCertificates.read(listening.tls, now: now)
        guard let certificates = reading.certificates, let tickets = tickets() else {
            throw CertificateError(mistakes: reading.mistakes)
        }
        (self.tickets, self.certificates, warnings) = (tickets, certificates, reading.warnings)
    }

    /// Files whose certificates are others than before, with their end.
    func renewed(since former: ServedCertificates?) -> [String] {
        let known = Set(former?.certificates.entries.map(\.facts.fingerprint) ?? [])
        guard !known.isEmpty else { return [] }
        return certificates.entries.filter { !known.contains($0.facts.fingerprint) }.map { entry in
            "\(entry.settings.file) (until \(String(decoding: HTTPDate.format(entry.facts.notAfter), as: UTF8.self)))"
        }
    }

    /// For each shard.
    func prepared(shards: Int) throws(CertificateError) -> [ServerTLS.Prepared] {
        guard let prepared = ServerTLS.Prepared.make(certificates, shards: shards) else { throw CertificateError(mistakes: []) }
        return prepared
    }
}

/// Why the certificates cannot be used.
public struct CertificateError: Error, CustomStringConvertible {
    public let mistakes: [ServerCertificates.Remark]

    public var description: String {
        guard mistakes.isEmpty else { return mistakes.map(\.description).joined(separator: "; ") }
        return "an address speaks https, and tls.certificates names none (or there is no memory for them)"
    }
}
