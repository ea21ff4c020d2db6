// Debian's nginx as the upstream, for behaviour that the scripted origin lacks, such as a server's TLS. Runs as one unprivileged process in
// a temporary directory.

import CTestTLS
import CacheStore
import Glibc

package final class WebServer {
    package static var isInstalled: Bool { TestTools.has("nginx") && TestTools.has("openssl") }

    package let port: UInt16
    private let temporary = TestTools.temporaryDirectory()
    private var directory: String { temporary.path }
    private var process: pid_t = 0

    package struct DidNotStart: Error {}

    /// Configuration of the server.
    package struct Setup {
        /// Parameters of `listen`: `ssl`, `ssl http2`, `http2`; empty for plain HTTP/1.1.
        package var listens = ""
        /// The server's certificate; nil without TLS.
        package var certificate: TestCertificates.Pair?
        /// Authority of client certificates, which are then required.
        package var clientAuthority: String?
        /// Additional directives.
        package var more = ""
        /// nginx directives for the response, with `$` variables.
        package var response =
            "return 200 '{\"protocol\":\"$server_protocol\",\"target\":\"$request_uri\",\"client\":\"$ssl_client_s_dn\"}';"

        package init() {}
    }

    /// Returns when the server accepts connections.
    /// - Parameter port: port of a stopped server to reuse; nil for a free one.
    package init(port: UInt16? = nil, _ setup: Setup) throws {
        self.port = port ?? TestTools.freePort()
        try write(setup)
        process = try TestTools.spawn(["nginx", "-e", "\(directory)/error.log", "-p", directory, "-c", "\(directory)/nginx.conf"])
        for _ in 0..<500 {
            if (try? TestClient(port: self.port)) != nil { return }
            _ = poll(nil, 0, 10)
        }
        stop()
        throw DidNotStart()
    }

    deinit { stop() }

    package func stop() {
        guard process > 0 else { return }
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
        process = 0
    }

    private func write(_ setup: Setup) throws {
        var tls = ""
        if let certificate = setup.certificate {
            tls = "ssl_certificate \(certificate.certificate); ssl_certificate_key \(certificate.key);"
        }
        if let authority = setup.clientAuthority { tls += "ssl_verify_client on; ssl_client_certificate \(authority);" }
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(directory);" }.joined()
        let text = """
            daemon off; master_process off; pid \(directory)/pid;
            events { worker_connections 256; }
            http {
                access_log off; \(temporary)
                server {
                    listen 127.0.0.1:\(port) \(setup.listens); \(tls) \(setup.more)
                    location / { default_type application/json; \(setup.response) }
                }
            }
            """
        try TestTools.write(text, to: "\(directory)/nginx.conf")
    }
}

/// Certificates of a play: an authority, and certificates it has signed.
package final class TestCertificates {
    package struct Pair: Sendable {
        package let certificate: String
        package let key: String
    }

    package struct NotMade: Error {}

    private let temporary = TestTools.temporaryDirectory()
    private var directory: String { temporary.path }
    /// Certificate of the authority.
    package var authority: String { "\(directory)/ca.pem" }

    package init() throws {
        try run("req -x509 \(Self.newKey) -days 2 -subj /CN=authority -keyout ca.key -out ca.pem")
    }

    private static let newKey = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"

    /// - Parameters:
    ///   - name: name of the files and the subject.
    ///   - hosts: subject alternative names in openssl's notation: `IP:127.0.0.1`, `DNS:api.test`.
    ///   - isRSA: whether the key is RSA; otherwise it is an elliptic curve.
    package func make(_ name: String, hosts: String = "IP:127.0.0.1", isRSA: Bool = false) throws -> Pair {
        let sections = "[req]\ndistinguished_name = subject\nx509_extensions = extensions\n[subject]\n[extensions]\n"
        try TestTools.write(sections + "subjectAltName = \(hosts)\n", to: "\(directory)/\(name).cnf")
        let made = "-subj /CN=\(name) -keyout \(name).key -out \(name).pem"
        try run("req -x509 \(isRSA ? "-newkey rsa:2048 -nodes" : Self.newKey) -config \(name).cnf -days 2 -CA ca.pem -CAkey ca.key \(made)")
        return Pair(certificate: "\(directory)/\(name).pem", key: "\(directory)/\(name).key")
    }

    package func makeSelfSigned(_ name: String) throws -> Pair {
        try run(
            "req -x509 \(Self.newKey) -days 2 -subj /CN=\(name) -addext subjectAltName=IP:127.0.0.1 -keyout \(name).key -out \(name).pem")
        return Pair(certificate: "\(directory)/\(name).pem", key: "\(directory)/\(name).key")
    }

    /// Makes a certificate that is valid between two times, in seconds from now.
    package func make(_ name: String, validFrom start: Int, to end: Int) throws -> Pair {
        let pair = try make(name)
        guard test_tls_redate(pair.certificate, "\(directory)/ca.key", start, end) != 0 else { throw NotMade() }
        return pair
    }

    private func run(_ arguments: String) throws {
        guard system("cd \(directory) && openssl \(arguments) 2>/dev/null") == 0 else { throw NotMade() }
    }
}
