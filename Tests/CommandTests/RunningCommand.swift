// A long-running command of the real binary, which notifies readiness on a descriptor.

import CSystem
import Glibc
import TestSupport

final class RunningCommand {
    private(set) var process: pid_t = 0
    private let output: String
    /// Whether no process is running.
    private var isStopped = true
    private(set) var port: UInt16 = 0

    struct Outcome {
        let status: Int32
        /// Standard output and standard error.
        let text: String
    }

    struct NotRunning: Error {
        let text: String
        /// Exit status; nil if it never ran.
        var status: Int32?
    }

    /// - Parameters:
    ///   - arguments: split at spaces.
    ///   - directory: for its output.
    ///   - environment: added to the tests' environment.
    ///   - activated: sockets to pass as systemd does, instead of an address.
    init(_ arguments: String, in directory: String, environment: [String: String] = [:], activated: [Int32] = []) throws {
        output = directory + "/output.\((arguments.split(separator: " ").first ?? "").replacing("/", with: "_"))"
        var ends: [Int32] = [0, 0]
        // Close-on-exec, because the test waits for the end, which another child process must not hold open.
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw NotRunning(text: "no descriptors")
        }
        let ready = Int32(3 + activated.count)
        let listen = activated.isEmpty ? " --listen 127.0.0.1:0" : ""
        var words = [CommandLineTool.path] + "\(arguments)\(listen) --ready-fd \(ready)".split(separator: " ").map(String.init)
        // Only the process itself knows its process ID.
        if !activated.isEmpty { words = ["/bin/sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=\(activated.count) exec \"$0\" \"$@\""] + words }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
        // Descriptors may have any number. They are copied to high numbers first, and only the wanted ones stay open.
        let copies = (activated + [ends[1]]).map { fcntl($0, F_DUPFD_CLOEXEC, 100) }
        for (place, copy) in copies.enumerated() { posix_spawn_file_actions_adddup2(&actions, copy, Int32(3 + place)) }
        close(ends[1])
        let failed = Self.spawn(words, environment, &actions, &process)
        for copy in copies { close(copy) }
        defer { close(ends[0]) }
        guard failed == 0 else { throw NotRunning(text: String(cString: strerror(failed))) }
        isStopped = false
        var line: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 256)
        while case let count = read(ends[0], &piece, piece.count), count > 0 { line += piece[..<count] }
        let address = String(decoding: line, as: UTF8.self)
        guard address.hasPrefix("http://127.0.0.1:"), let port = UInt16(address.dropFirst(17).dropLast()) else {
            var status: Int32 = 0
            waitpid(process, &status, 0)
            isStopped = true
            throw NotRunning(text: text, status: status >> 8 & 0xff)
        }
        self.port = port
    }

    private static func spawn(
        _ words: [String], _ environment: [String: String], _ actions: inout posix_spawn_file_actions_t, _ process: inout pid_t
    ) -> Int32 {
        var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        var entries: [UnsafeMutablePointer<CChar>?] = []
        var own = environ
        while let entry = own.pointee {
            let name = String(cString: entry).prefix { $0 != "=" }
            if environment[String(name)] == nil { entries.append(strdup(entry)) }
            own += 1
        }
        entries += environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in pointers + entries { free(pointer) } }
        return posix_spawn(&process, words[0], &actions, nil, &pointers, entries)
    }

    /// Ends the process if the test ended early.
    deinit { if !isStopped { _ = stop(SIGKILL) } }

    /// Standard output and standard error so far.
    var text: String { (try? TestTools.read(output)) ?? "" }

    func send(_ signal: Int32) { kill(process, signal) }

    func stop(_ signal: Int32 = SIGTERM) -> Outcome {
        kill(process, signal)
        return wait()
    }

    /// Waits for the exit.
    func wait() -> Outcome {
        isStopped = true
        var status: Int32 = 0
        waitpid(process, &status, 0)
        return Outcome(status: status & 0x7f == 0 ? status >> 8 & 0xff : -1, text: text)
    }

    /// Sends a request over a new connection.
    func request(_ method: String, _ target: String, _ fields: [(String, String)] = [], content: String? = nil) throws -> TestResponse {
        guard let response = try TestClient(port: port).request(method, target, fields, content: content) else {
            throw NotRunning(text: "no response")
        }
        return response
    }

    func get(_ target: String, _ fields: [(String, String)] = []) throws -> TestResponse { try request("GET", target, fields) }
}
