// redis-server of Debian, as a process of the play's own.

import CacheStore
import Glibc
import TestSupport

@testable import Engine

final class RedisProcess {
    static let isInstalled = TestTools.has("redis-server")

    let port: UInt16
    /// Where the servers of a Cluster talk to each other.
    let busPort: UInt16
    private let process: pid_t
    private let directory: TemporaryDirectory

    var socketPath: String { directory.path + "/redis.sock" }
    var server: EngineServer { .host("127.0.0.1", port: port) }

    /// - Parameters:
    ///   - isTLS: its port speaks TLS and asks for a certificate.
    ///   - more: further words.
    init(isCluster: Bool = false, isTLS: Bool = false, _ more: [String] = []) throws {
        directory = TestTools.temporaryDirectory()
        port = TestTools.freePort()
        busPort = TestTools.freePort()
        var words = [
            "redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", directory.path, "--unixsocket", directory.path + "/redis.sock",
        ]
        words += isTLS ? ["--port", "0", "--tls-port", "\(port)"] : ["--port", "\(port)"]
        if isCluster {
            words += ["--cluster-enabled", "yes", "--cluster-port", "\(busPort)", "--cluster-node-timeout", "1000"]
            words += ["--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
        }
        process = try TestTools.spawn(words + more)
    }

    deinit { end() }

    private func end() {
        kill(process, SIGKILL)
        var status: Int32 = 0
        waitpid(process, &status, 0)
    }

    /// Dies without a word. What is sent there afterwards is refused.
    func die() { kill(process, SIGKILL) }
    /// Says nothing more, and takes what comes.
    func freeze() { kill(process, SIGSTOP) }
    func thaw() { kill(process, SIGCONT) }
}
