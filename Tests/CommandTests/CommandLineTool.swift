// Runs the real binary as a user does.

import Glibc
import TestSupport

struct CommandLineTool {
    let play: ProxyPlay

    struct Outcome {
        let status: Int32
        /// Standard output, then standard error.
        let text: String

        var lines: [String] { text.split(separator: "\n").map(String.init) }
    }

    /// Path of the binary, next to that of the tests.
    static let path: String = {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        let own = String(decoding: buffer[..<max(0, count)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return own[..<(own.lastIndex(of: "/") ?? own.startIndex)] + "/cistern"
    }()

    /// - Parameters:
    ///   - arguments: as typed in a shell. The address is appended.
    ///   - proxy: whether the command needs the proxy's address instead of the admin interface's.
    func run(_ arguments: String, proxy: Bool = false) throws -> Outcome {
        try Self.run(arguments + " " + (proxy ? "--proxy 127.0.0.1:\(play.port)" : "--admin unix:\(play.adminSocket)"))
    }

    /// - Parameters:
    ///   - arguments: as typed in a shell.
    ///   - environment: assignments before the command.
    static func run(_ arguments: String, environment: String = "") throws -> Outcome {
        try run(program: "\(environment) \(path) \(arguments)")
    }

    /// - Parameter program: any program with its arguments.
    static func run(program: String) throws -> Outcome {
        let command = "\(program) 2>&1"
        guard let pipe = popen(command, "re") else { throw NotRun() }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&piece, 1, piece.count, pipe), count > 0 { bytes += piece[..<count] }
        let status = pclose(pipe)
        return Outcome(status: status >> 8, text: String(decoding: bytes, as: UTF8.self))
    }

    struct NotRun: Error {}
}
