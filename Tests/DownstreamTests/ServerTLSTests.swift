// Tests which certificate serves which name, the size of TLS records, and the checks of certificates before use.

import Glibc
import Reactor
import TestSupport
import Testing

@testable import Downstream

@Suite("TLS settings for clients")
struct ServerTLSTests {
    @Test(
        "an exact name takes precedence over a wildcard, and a wildcard matches one label",
        arguments: [
            ("a.test", 0), ("A.Test", 0), ("a.test.", 0), ("x.a.test", 1), ("y.a.test", 2), ("z.y.a.test", nil), (".a.test", nil),
            ("test", nil), ("", nil), (".", nil), ("b.test", 1), ("*.a.test", 2),
        ] as [(String, Int?)])
    func names(_ name: String, _ place: Int?) {
        let names = ServerNames([["a.test"], ["x.a.test", "B.test"], ["*.a.test", "a.test"]])
        #expect(names.index(of: name) == place)
    }

    @Test("content that fits the first flight is one record; longer content starts with small records and continues with large ones")
    func records() {
        func sizes(_ bytes: Int, _ records: inout RecordSizes) -> [Int] {
            var (left, sizes) = (bytes, [Int]())
            while left > 0 {
                let next = records.next(of: left)
                sizes.append(next)
                records.sent(next)
                left -= next
            }
            return sizes
        }
        var short = RecordSizes()
        #expect(sizes(10_000, &short) == [10_000] && sizes(100, &short) == [100])
        var long = RecordSizes()
        let first = sizes(60_000, &long)
        #expect(first.prefix(10).allSatisfy { $0 == RecordSizes.packetBytes } && first[10] == RecordSizes.largestBytes)
        #expect(first.reduce(0, +) == 60_000 && sizes(40_000, &long) == [16_384, 16_384, 7_232])
    }

    @Test("errors and warnings name the file, and one error prevents the use of all certificates")
    func reading() throws {
        let certificates = try TestCertificates()
        let (one, other) = (try certificates.make("one", hosts: "DNS:one.test"), try certificates.make("other", hosts: "DNS:other.test"))
        var settings = ServerTLSSettings()
        settings.certificates = [ServerTLSSettings.Certificate(file: one.certificate, keyFile: one.key)]
        let good = ServerCertificates.read(settings, now: 0)
        #expect(good.mistakes.isEmpty && good.certificates?.entries.map(\.facts.names) == [["one.test"]])
        // The certificate was made with a later clock, and its authority is not known to this machine.
        #expect(good.warnings.contains { $0.sentence.hasSuffix("is not valid yet") })
        let facts = try #require(good.certificates?.entries.first?.facts)
        for (now, end) in [(facts.notAfter, "has expired"), (facts.notAfter - 86_400, "expires in 1 days")] {
            #expect(ServerCertificates.read(settings, now: now).warnings.contains { $0.sentence.hasSuffix(end) })
        }
        var wrong = ServerTLSSettings.Certificate(file: other.certificate, keyFile: one.key)
        for (key, words) in [
            (one.key, "does not belong to the certificate in"), ("/none", "cannot be read"), (other.certificate, "contains no key"),
        ] {
            wrong.keyFile = key
            settings.certificates = [settings.certificates[0], wrong]
            let reading = ServerCertificates.read(settings, now: facts.notBefore)
            #expect(reading.certificates == nil && reading.mistakes.map(\.index) == [1])
            #expect(reading.mistakes.first?.sentence.contains(words) == true)
        }
        wrong.keyFile = other.key
        wrong.verification = .required
        settings.certificates = [wrong]
        #expect(ServerCertificates.read(settings, now: 0).mistakes.first?.sentence.contains("requires client_ca") == true)
    }

    @Test("a certificate or key file that is a pipe is rejected without blocking", .play)
    func pipe() throws {
        let certificates = try TestCertificates()
        let one = try certificates.make("one", hosts: "DNS:one.test")
        #expect(unlink(one.key) == 0 && mkfifo(one.key, 0o600) == 0)
        var settings = ServerTLSSettings()
        settings.certificates = [ServerTLSSettings.Certificate(file: one.certificate, keyFile: one.key)]
        #expect(ServerCertificates.read(settings, now: 0).mistakes.map(\.sentence) == ["\(one.key) is not a regular file"])
    }

    @Test("a self-signed certificate is immediately valid, with any random serial number")
    func selfSigned() throws {
        for _ in 0..<2_000 {
            let made = try #require(CertificateFacts.makeSelfSigned(names: "DNS:localhost,IP:127.0.0.1", days: 10))
            let facts = CertificateFacts(made, made)
            #expect(facts.keyFits && facts.names == ["localhost"] && facts.daysLeft(now: facts.notAfter - 10 * 86_400) == 10)
        }
    }
}
