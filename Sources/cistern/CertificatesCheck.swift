// Checks the TLS settings of listeners, and converts them to the type of the listeners.

import Downstream
import Glibc
import ReverseProxy
import Settings

enum CertificatesCheck {
    static func check(_ reader: inout SettingsReader) {
        let settings = reader.settings
        let listeners = (settings.listen + settings.adminListen).map { (settings: $0, listener: ListenerSettings($0)) }
        let secured = listeners.filter { $0.listener?.isTLS == true }
        for one in listeners where one.listener?.isTLS == false && one.settings.clientVerify != nil {
            reader.add(
                about: "listen", "client_verify of \(one.settings.address) needs https, because only TLS connections have certificates")
        }
        if settings.tls.certificates.isEmpty, let first = secured.first {
            reader.add(
                about: "listen", "\(first.settings.address) needs tls.certificates; for local tests use cistern serve --tls-self-signed"
            )
        }
        let tls = ServerTLSSettings(settings)
        for mistake in ServerCertificates.read(tls, now: Int64(time(nil))).mistakes {
            reader.add(about: "tls.certificates", "\(mistake)")
        }
        let asks = secured.contains { one in (one.listener?.verification ?? .off) != .off }
        if asks, tls.certificates.contains(where: { $0.clientAuthorities == nil }) {
            reader.add(about: "listen", "client_verify needs tls.client_ca")
        }
    }

    /// Warnings about certificates that can be used.
    static func warnings(_ settings: CisternSettings) -> [String] {
        ServerCertificates.read(ServerTLSSettings(settings), now: Int64(time(nil))).warnings.map(\.description)
    }
}

extension ServerTLSSettings {
    init(_ settings: CisternSettings) {
        self = settings.proxy.listening.tls
        let tls = settings.tls
        certificates = tls.certificates.map { one in
            var certificate = Certificate(file: one.certificate, keyFile: one.key.isEmpty ? nil : one.key)
            let authorities = one.clientCA.isEmpty ? tls.clientCA : one.clientCA
            certificate.clientAuthorities = authorities.isEmpty ? nil : authorities
            certificate.verification = one.clientVerify ?? tls.clientVerify
            return certificate
        }
    }
}
