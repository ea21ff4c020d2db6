// `cistern healthcheck`: asks a running Cistern for /healthz, for containers that have no curl.

import ArgumentParser
import CSystem
import Glibc

struct HealthCheck: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthcheck", abstract: "Ask a running Cistern whether it is well; ends with 0 if so, with 1 if not.")

    @Option(help: ArgumentHelp("The port it listens on, on this machine.", valueName: "number"))
    var port: UInt16 = 8080

    func run() throws {
        guard Self.isHealthy(port: port) else {
            StandardError.write("cistern: nothing healthy answers on port \(port)\n")
            throw ExitCode.failure
        }
    }

    /// One request over a plain socket, with 3 seconds for all of it.
    private static func isHealthy(port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var limit = timeval(tv_sec: 3, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        guard connected == 0 else { return false }
        let request = Array("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else { return false }
        var answer = [UInt8](repeating: 0, count: 64)
        let count = recv(descriptor, &answer, answer.count, 0)
        return count > 12 && answer.starts(with: Array("HTTP/1.1 200".utf8))
    }
}
