// System resources for plays: programs, free ports, temporary files.

import CSystem
import CacheStore
import Downstream
import Glibc
import Reactor

package enum TestTools {
    package struct Failed: Error {
        package let what: String
    }

    /// Whether a program is installed.
    package static func has(_ program: String) -> Bool { system("command -v \(program) >/dev/null 2>&1") == 0 }

    /// Starts a program from PATH with this environment and without input. Its output is discarded: otherwise readers of the tests' output
    /// would wait for it.
    package static func spawn(_ arguments: [String]) throws -> pid_t {
        var process: pid_t = 0
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        for descriptor in [STDOUT_FILENO, STDERR_FILENO] {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
        }
        guard posix_spawnp(&process, arguments[0], &actions, nil, &words, environ) == 0 else { throw Failed(what: arguments[0]) }
        return process
    }

    package static func temporaryDirectory() -> TemporaryDirectory {
        guard let directory = TemporaryDirectory("cistern-test") else { preconditionFailure("no temporary directory") }
        return directory
    }

    /// Copies the files of a directory, as a crash would leave them.
    package static func copyFiles(from source: String, to target: String, _ isWanted: (String) -> Bool) {
        guard let directory = opendir(source) else { return }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard !name.hasPrefix("."), isWanted(name), let from = fopen("\(source)/\(name)", "r") else { continue }
            defer { fclose(from) }
            guard let to = fopen("\(target)/\(name)", "w") else { continue }
            defer { fclose(to) }
            chmod("\(target)/\(name)", 0o600)
            var bytes = [UInt8](repeating: 0, count: 1 << 18)
            while case let count = fread(&bytes, 1, bytes.count, from), count > 0 { fwrite(bytes, 1, count, to) }
        }
    }

    /// Path of a new file with this text. The file exists until the process ends.
    package static func file(_ text: String) -> String {
        let path = files.withLock { files in
            files.count += 1
            return "\(files.directory.path)/\(files.count)"
        }
        do { try write(text, to: path) } catch { preconditionFailure("\(path) cannot be written") }
        return path
    }

    private static let files = Mutex((directory: temporaryDirectory(), count: 0))

    /// A loopback port that is not in use.
    package static func freePort() -> UInt16 {
        guard let socket = try? BoundSocket(.ipv4(host: "127.0.0.1", port: 0), backlog: 1) else { preconditionFailure("no free port") }
        guard case .ipv4(_, let port) = socket.address else { preconditionFailure("no free port") }
        return port
    }

    /// Index of the first occurrence; nil if there is none. Replaces the library's search, which is very slow in debug builds.
    package static func index(of text: String, in bytes: [UInt8]) -> Int? {
        let text = Array(text.utf8)
        guard let first = text.first else { return 0 }
        return bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return nil }
            var index = 0
            while index + text.count <= bytes.count, let found = memchr(base + index, Int32(first), bytes.count - index - text.count + 1) {
                index = UnsafeRawPointer(found) - base
                if memcmp(found, text, text.count) == 0 { return index }
                index += 1
            }
            return nil
        }
    }

    /// Paths of the Swift files in the modules below a directory.
    package static func swiftFiles(in directory: String) -> [String] {
        ["*/*.swift", "*/*/*.swift"].flatMap { pattern -> [String] in
            var found = glob_t()
            defer { globfree(&found) }
            guard glob("\(directory)/\(pattern)", 0, nil, &found) == 0 else { return [] }
            return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
        }
    }

    package static func copy(_ source: String, to path: String) throws { try write(read(source), to: path) }

    package static func read(_ path: String) throws -> String { String(decoding: try readBytes(path), as: UTF8.self) }

    package static func readBytes(_ path: String) throws -> [UInt8] {
        guard let file = fopen(path, "r") else { throw Failed(what: path) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while case let count = fread(&piece, 1, piece.count, file), count > 0 { bytes += piece[..<count] }
        return bytes
    }

    package static func write(_ text: String, to path: String) throws {
        let descriptor = csystem_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failed(what: path) }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else { throw Failed(what: path) }
    }
}
