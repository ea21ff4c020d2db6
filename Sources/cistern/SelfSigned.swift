// A self-signed certificate for local development, created on demand and kept in the cache directory.

import CSystem
import Downstream
import Glibc
import Reactor
import ReverseProxy
import Settings

enum SelfSigned {
    private static let days = 365
    /// With fewer remaining days the certificate is replaced.
    private static let leastDays: Int64 = 7

    /// Configures the certificate, and enables TLS on all TCP addresses unless one has TLS already.
    static func use(in settings: inout CisternSettings) throws(AdminFailure) {
        settings.tls.certificates = [CisternSettings.Certificate(shortForm: try file(settings))]
        let isSpoken = settings.listen.contains { ListenerSettings($0.address)?.isTLS == true }
        guard !isSpoken else { return }
        for index in settings.listen.indices where !settings.listen[index].address.hasPrefix("unix:") {
            let address = settings.listen[index].address
            settings.listen[index].address = "https://" + (address.hasPrefix("http://") ? String(address.dropFirst(7)) : address)
        }
    }

    /// SHA-256 fingerprint in the notation of browsers and curl.
    static func fingerprint(_ settings: CisternSettings) -> String {
        let content = FileContent.read(settings.tls.certificates.first?.certificate ?? "") ?? []
        return CertificateFacts(content, content).fingerprint.map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return digits.count == 1 ? "0" + digits : digits
        }.joined(separator: ":")
    }

    private static func file(_ settings: CisternSettings) throws(AdminFailure) -> String {
        let directory = ProxySettings.storeDirectory(settings)
        let file = directory + "/tls-self-signed.pem"
        if let content = FileContent.read(file) {
            let facts = CertificateFacts(content, content)
            if facts.keyFits, facts.daysLeft(now: Int64(time(nil))) >= leastDays { return file }
        }
        guard let made = CertificateFacts.makeSelfSigned(names: names(settings), days: days) else {
            throw AdminFailure("--tls-self-signed: the certificate could not be created")
        }
        try write(made, to: file, in: directory)
        return file
    }

    private static func names(_ settings: CisternSettings) -> String {
        var names = ["DNS:localhost", "IP:127.0.0.1", "IP:::1"]
        for listener in settings.listen {
            switch ListenerSettings(listener.address)?.address {
            case .ipv4(let host, _) where host != "0.0.0.0" && host != "127.0.0.1": names.append("IP:" + host)
            case .ipv6(let host, _) where host != "::" && host != "::1": names.append("IP:" + host)
            default: break
            }
        }
        return names.joined(separator: ",")
    }

    /// Writes the file atomically, readable by its owner only.
    private static func write(_ content: [UInt8], to file: String, in directory: String) throws(AdminFailure) {
        var path = ""
        // errno of the first directory that could not be created.
        var makeError: Int32 = 0
        for part in directory.split(separator: "/", omittingEmptySubsequences: false) {
            path += part + "/"
            if path != "/", mkdir(path, 0o700) != 0, errno != EEXIST, makeError == 0 { makeError = errno }
        }
        let temporary = file + ".new"
        unlink(temporary)
        let descriptor = Descriptor(csystem_open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        let isWritten = descriptor.isOpen && WholeWrite.write(content, to: descriptor.number) == content.count
        guard isWritten, rename(temporary, file) == 0 else {
            let code = errno == ENOENT && makeError != 0 ? makeError : errno
            throw AdminFailure("--tls-self-signed: \(SystemError.words(file, cannotBe: "written", code))")
        }
    }
}
