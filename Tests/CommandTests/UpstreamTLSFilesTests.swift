// TLS files of the upstream that can be read but not used: `cistern check`, the start and `cistern reload` refuse them.

import CacheStore
import Reactor
import TestSupport
import Testing

@Suite("TLS files of the upstream", .slow, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct UpstreamTLSFilesTests {
    private func check(_ settings: [String]) throws -> CommandLineTool.Outcome {
        let sets = settings.map { "--set upstream.\($0)" }.joined(separator: " ")
        return try CommandLineTool.run("check --upstream https://127.0.0.1:1 \(sets)")
    }

    @Test("files without the required certificate or key are reported with their setting")
    func unusable() throws {
        let certificates = try TestCertificates()
        let (own, other) = (try certificates.make("own"), try certificates.make("other"))
        let directory = TestTools.temporaryDirectory()
        let (empty, garbage, half) = ("\(directory.path)/empty", "\(directory.path)/garbage", "\(directory.path)/half")
        try TestTools.write("", to: empty)
        try TestTools.write("garbage", to: garbage)
        let text = String(decoding: FileContent.read(certificates.authority) ?? [], as: UTF8.self)
        try TestTools.write(String(text.prefix(300)), to: half)
        let good = try check(["ca_file=\(certificates.authority)", "client_certificate=\(own.certificate)", "client_key=\(own.key)"])
        #expect(good.status == 0, "\(good.text)")
        for file in [empty, garbage, half] {
            let outcome = try check(["ca_file=\(file)"])
            #expect(
                outcome.status == 78 && outcome.text.contains("upstream.ca_file: \(file) must be a PEM file with certificates"),
                "\(outcome.text)")
        }
        for (certificate, key) in [(own.certificate, other.key), (own.certificate, empty), (garbage, own.key)] {
            let outcome = try check(["client_certificate=\(certificate)", "client_key=\(key)"])
            let reason = "upstream.client_certificate: \(certificate) and \(key) must be PEM files with a certificate and its key"
            #expect(outcome.status == 78 && outcome.text.contains(reason), "\(outcome.text)")
        }
    }
}
