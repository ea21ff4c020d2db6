// A command of the real binary that stays until it is told to stop, as a test harness runs it: it says on a descriptor when it listens.

import CSystem
import Glibc
import TestSupport

final class RunningCommand {
    private let process: pid_t
    private let output: String
    let port: UInt16

    struct Outcome {
        let status: Int32
        /// Standard output and standard error.
        let text: String
    }

    struct NotRunning: Error {
        let text: String
    }

    /// - Parameters:
    ///   - arguments: split at spaces.
    ///   - directory: for what it writes.
    init(_ arguments: String, in directory: String) throws {
        output = directory + "/output.\(arguments.split(separator: " ").first ?? "")"
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw NotRunning(text: "no pipe") }
        let words = [CommandLineTool.path] + (arguments + " --listen 127.0.0.1:0 --ready-fd 3").split(separator: " ").map(String.init)
        var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
        // The pipe's ends may have any number; only the one that is wanted stays open beside it.
        let high = fcntl(ends[1], F_DUPFD_CLOEXEC, 100)
        close(ends[1])
        _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
        posix_spawn_file_actions_adddup2(&actions, high, 3)
        var process: pid_t = 0
        let failed = posix_spawn(&process, words[0], &actions, nil, &pointers, environ)
        close(high)
        defer { close(ends[0]) }
        guard failed == 0 else { throw NotRunning(text: String(cString: strerror(failed))) }
        self.process = process
        var line: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 256)
        while case let count = read(ends[0], &piece, piece.count), count > 0 { line += piece[..<count] }
        let address = String(decoding: line, as: UTF8.self)
        guard address.hasPrefix("http://127.0.0.1:"), let port = UInt16(address.dropFirst(17).dropLast()) else {
            var status: Int32 = 0
            waitpid(process, &status, 0)
            throw NotRunning(text: Self.text(output))
        }
        self.port = port
    }

    private static func text(_ path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var text = ""
        var line = [CChar](repeating: 0, count: 4_096)
        while fgets(&line, Int32(line.count), file) != nil {
            text += String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
        return text
    }

    private var isStopped = false

    /// Where a test ended before it came to that.
    deinit { if !isStopped { _ = stop(SIGKILL) } }

    func stop(_ signal: Int32 = SIGTERM) -> Outcome {
        isStopped = true
        kill(process, signal)
        var status: Int32 = 0
        waitpid(process, &status, 0)
        return Outcome(status: status & 0x7f == 0 ? status >> 8 & 0xff : -1, text: Self.text(output))
    }

    /// Over a connection of its own.
    func request(_ method: String, _ target: String, _ fields: [(String, String)] = [], content: String? = nil) throws -> TestResponse {
        guard let response = try TestClient(port: port).request(method, target, fields, content: content) else {
            throw NotRunning(text: "no response")
        }
        return response
    }

    func get(_ target: String, _ fields: [(String, String)] = []) throws -> TestResponse { try request("GET", target, fields) }
}
