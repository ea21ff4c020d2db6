// A process of redis-server, and an independent client for it.

import CacheStore
import Glibc

package final class RedisProcess {
    package static let isInstalled = TestTools.has("redis-server")

    package let port: UInt16
    /// Port of the Cluster bus.
    package let busPort: UInt16
    private var process: pid_t
    private let words: [String]
    private let directory: TemporaryDirectory

    package var socketPath: String { directory.path + "/redis.sock" }
    package var direct: DirectRedis { DirectRedis(port: port) }

    /// - Parameters:
    ///   - isTLS: whether its port requires TLS with a client certificate.
    ///   - configuration: content of its configuration file; nil for none.
    ///   - more: additional arguments.
    package init(isCluster: Bool = false, isTLS: Bool = false, configuration: String? = nil, _ more: [String] = []) throws {
        directory = TestTools.temporaryDirectory()
        port = TestTools.freePort()
        busPort = TestTools.freePort()
        var words = ["redis-server"]
        if let configuration {
            words.append(directory.path + "/redis.conf")
            try TestTools.write(configuration, to: directory.path + "/redis.conf")
        }
        words += ["--bind", "127.0.0.1", "--save", "", "--dir", directory.path, "--unixsocket", directory.path + "/redis.sock"]
        words += isTLS ? ["--port", "0", "--tls-port", "\(port)"] : ["--port", "\(port)"]
        if isCluster {
            words += ["--cluster-enabled", "yes", "--cluster-port", "\(busPort)", "--cluster-node-timeout", "1000"]
            words += ["--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
        }
        self.words = words + more
        process = try TestTools.spawn(self.words)
    }

    deinit { end() }

    private func end() {
        kill(process, SIGKILL)
        var status: Int32 = 0
        waitpid(process, &status, 0)
    }

    /// Kills the process. Later connections are refused.
    package func die() { kill(process, SIGKILL) }
    /// Stops the process: it accepts connections and does not respond.
    package func freeze() { kill(process, SIGSTOP) }
    package func thaw() { kill(process, SIGCONT) }

    /// Restarts the process on the same port, with the data that it has saved.
    package func revive() throws {
        end()
        process = try TestTools.spawn(words)
    }
}

extension RedisProcess {
    /// Starts a Cluster of three primaries with a third of the slots each.
    /// - Parameter number: index of the primary that has a replica, which is the last server; nil for no replica.
    package static func cluster(replicaOf number: Int? = nil) throws -> [RedisProcess] {
        let servers = try (0..<(number == nil ? 3 : 4)).map { _ in try RedisProcess(isCluster: true) }
        let direct = servers.map(\.direct)
        for (number, range) in [(0, "0 5460"), (1, "5461 10922"), (2, "10923 16383")] {
            direct[number].ask("CLUSTER ADDSLOTSRANGE \(range)")
        }
        for (number, one) in direct.enumerated() { one.ask("CLUSTER SET-CONFIG-EPOCH \(number + 1)") }
        for server in servers[1...] { direct[0].ask("CLUSTER MEET 127.0.0.1 \(server.port) \(server.busPort)") }
        for one in direct[..<3] { one.ask("CLUSTER INFO", until: "cluster_slots_assigned:16384") }
        for one in direct[..<3] { one.ask("CLUSTER INFO", until: "cluster_state:ok") }
        guard let number else { return servers }
        let name = direct[number].ask("CLUSTER MYID").split(separator: "\r\n").last.map(String.init) ?? ""
        direct[3].ask("CLUSTER NODES", until: name)
        direct[3].ask("CLUSTER REPLICATE \(name)", until: "OK")
        direct[3].ask("INFO replication", until: "master_link_status:up")
        for one in direct { one.ask("CLUSTER SLOTS", until: ":\(servers[3].port)\r\n") }
        return servers
    }
}

/// Sends commands, each over a new connection.
package struct DirectRedis {
    private let port: UInt16

    package init(port: UInt16) { self.port = port }

    /// - Returns: the first reply that contains `text`, or the last reply after 30 seconds.
    @discardableResult
    package func ask(_ command: String, until text: String = "") -> String {
        var said = ""
        for _ in 0..<3000 {
            said = once(Array("\(command)\r\n".utf8))
            if !said.isEmpty, text.isEmpty || said.contains(text) { return said }
            _ = poll(nil, 0, 10)
        }
        return said
    }

    /// Sends a command. Its words may contain any bytes.
    @discardableResult
    package func ask(_ words: [[UInt8]]) -> String {
        var bytes = Array("*\(words.count)\r\n".utf8)
        for word in words { bytes += Array("$\(word.count)\r\n".utf8) + word + Array("\r\n".utf8) }
        return once(bytes)
    }

    /// The value of a key.
    package func value(of key: String) -> [UInt8] {
        let reply = bytes(Array("GET \(key)\r\n".utf8))
        guard reply.first == UInt8(ascii: "$"), let end = reply.firstRange(of: Array("\r\n".utf8)) else { return [] }
        return Array(reply[end.upperBound...].dropLast(2))
    }

    private func once(_ command: [UInt8]) -> String { String(decoding: bytes(command), as: UTF8.self) }

    private func bytes(_ command: [UInt8]) -> [UInt8] {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { return [] }
        let whole = command + Array("QUIT\r\n".utf8)
        guard send(descriptor, whole, whole.count, Int32(MSG_NOSIGNAL)) == whole.count else { return [] }
        var said: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = recv(descriptor, &piece, piece.count, 0), count > 0 { said += piece[..<count] }
        // Without the reply to QUIT.
        return said.dropLast(5)
    }
}
