// `cistern warm`: requests targets through the proxy, to store their responses in advance.

import Archives
import ArgumentParser
import Dispatch
import Glibc
import HTTPCore
import JSON
import Reactor
import Settings

struct Warm: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Fetch targets through a running Cistern, so that they are stored.",
        discussion: """
            Takes paths, URLs of the API, and files. A file is a list with one path or URL a line (# begins a comment), an OpenAPI \
            document in JSON, or an HTTP archive. Of an OpenAPI document, every GET without parameters in its path is requested. Of URLs, \
            only path and arguments count.

            Examples:
              cistern warm /users '/posts?page=1'
              cistern warm paths.txt --header 'Authorization: Bearer …'
              cistern warm openapi.json --concurrency 4
            """)

    @Argument(help: ArgumentHelp("Paths, URLs, or files.", valueName: "what"))
    var sources: [String]

    @Option(help: ArgumentHelp("Address on which the running Cistern listens. By default, the one in the settings.", valueName: "address"))
    var proxy: String?

    @Option(help: ArgumentHelp("Number of concurrent requests.", valueName: "number"))
    var concurrency = 4

    @Option(help: ArgumentHelp("A field for each request, such as 'Accept-Language: de'. May be repeated.", valueName: "name: value"))
    var header: [String] = []

    @Option(name: [.short, .long], help: "Configuration file of the running Cistern.")
    var config: String?

    @Option(help: "Cache directory of the running Cistern.")
    var cacheDir: String?

    @OptionGroup var tls: CommandTLSOptions

    func validate() throws {
        guard (1...64).contains(concurrency) else { throw ValidationError("--concurrency must be from 1 to 64") }
        let isField = { (line: String) in
            guard let colon = line.firstIndex(of: ":"), colon > line.startIndex else { return false }
            return line[..<colon].utf8.allSatisfy(isTokenByte) && line.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
        }
        for line in header where !isField(line) { throw ValidationError("--header takes 'name: value', not '\(line)'") }
    }

    func run() throws {
        try Self.reportingFailure {
            var (targets, invalid): ([String], [String]) = ([], [])
            for text in try sources.flatMap(WarmList.texts) {
                if let target = WarmList.target(text) { targets.append(target) } else { invalid.append(text) }
            }
            for text in invalid { StandardError.writeUnchanged("\(Printable.text(text)): \(WarmList.mistake)\n") }
            guard !targets.isEmpty else { throw AdminFailure("no target to fetch in \(sources.joined(separator: ", "))") }
            let failed = fetch(targets, skipped: invalid.count, from: try address())
            if failed + invalid.count > 0 { throw ExitCode.failure }
        }
    }

    private func address() throws -> CommandTarget {
        let text = try proxy ?? AdminOptions.reachingSettings(config: config, cacheDir: cacheDir, isPlaceKnown: false).listen.first?.address
        guard let text = text?.reachable, let address = CommandTarget(text, tls.files) else {
            throw AdminFailure(text.flatMap(AddressMistake.sentence) ?? "\(UpstreamURL.shown(text ?? "")) is not an address")
        }
        return address
    }

    /// - Returns: number of failed requests.
    private func fetch(_ targets: [String], skipped: Int, from address: CommandTarget) -> Int {
        let progress = WarmProgress(total: targets.count)
        let lines = header.map { $0 + "\r\n" }.joined()
        let workers = min(concurrency, targets.count)
        // Index of the next target, shared by the workers.
        let next = Mutex(0)
        DispatchQueue.concurrentPerform(iterations: workers) { _ in
            while true {
                let index = next.withLock { index in
                    defer { index += 1 }
                    return index
                }
                guard index < targets.count else { return }
                progress.ended(targets[index], WarmOutcome(targets[index], lines, address))
            }
        }
        return progress.finish(skipped: skipped)
    }
}

private enum WarmOutcome {
    case stored, fresh, notStored
    case failed(String)

    private static let patienceSeconds = 150

    init(_ target: String, _ lines: String, _ address: CommandTarget) {
        let request = "GET \(target) HTTP/1.1\r\nHost: \(address.authority)\r\nConnection: close\r\nAccept: */*\r\n\(lines)\r\n"
        do throws(AdminFailure) {
            self.init(try address.exchange(Array(request.utf8), patienceSeconds: Self.patienceSeconds))
        } catch {
            self = .failed(error.description)
        }
    }

    private init(_ response: [UInt8]) {
        guard let end = response.firstRange(of: Array("\r\n\r\n".utf8)), response.count > 12 else {
            self = .failed("no response")
            return
        }
        let head = String(decoding: response[..<end.lowerBound], as: UTF8.self)
        let status = head.dropFirst(9).prefix(3)
        guard status.first == "2" || status.first == "3" else {
            self = .failed("status \(status)")
            return
        }
        let cache = head.split(separator: "\r\n").last { $0.lowercased().hasPrefix("cache-status:") } ?? ""
        self = cache.contains("; stored") || cache.contains("fwd-status=304") ? .stored : cache.contains("; hit") ? .fresh : .notStored
    }
}

/// Counts results and shows progress, as a bar on a terminal. `@unchecked Sendable` because the only mutable state is behind the mutex.
private final class WarmProgress: @unchecked Sendable {
    private let total: Int
    private let isTerminal = isatty(STDERR_FILENO) == 1
    /// Changed by all workers.
    private let counts = Mutex((done: 0, stored: 0, fresh: 0, notStored: 0, failed: 0))

    private static let width = 30

    init(total: Int) { self.total = total }

    func ended(_ target: String, _ outcome: WarmOutcome) {
        counts.withLock { counts in
            counts.done += 1
            switch outcome {
            case .stored: counts.stored += 1
            case .fresh: counts.fresh += 1
            case .notStored: counts.notStored += 1
            case .failed(let reason):
                counts.failed += 1
                StandardError.writeUnchanged((isTerminal ? "\r\u{1b}[K" : "") + "\(Printable.text(target)): \(reason)\n")
            }
            guard isTerminal else { return }
            let filled = counts.done * Self.width / total
            let bar = String(repeating: "=", count: filled) + String(repeating: " ", count: Self.width - filled)
            StandardError.writeUnchanged("\r\u{1b}[K[\(bar)] \(counts.done)/\(total)")
        }
    }

    /// - Returns: number of failed requests.
    func finish(skipped: Int) -> Int {
        let counts = counts.withLock { $0 }
        if isTerminal { StandardError.writeUnchanged("\r\u{1b}[K") }
        print(
            "\(total) requested: \(counts.stored) stored, \(counts.fresh) fresh already, \(counts.notStored) not stored, "
                + "\(counts.failed) failed\(skipped > 0 ? "; \(skipped) skipped" : "")")
        return counts.failed
    }
}

/// Reads the targets that an argument names.
enum WarmList {
    /// Returns paths and URLs as they are written.
    static func texts(in source: String) throws -> [String] {
        if source.hasPrefix("/"), !isFile(source) { return [source] }
        if source.hasPrefix("http://") || source.hasPrefix("https://") { return [source] }
        guard let bytes = FileContent.read(source, limit: ArchiveReader.limitBytes + 1) else {
            throw AdminFailure(
                "\(source) is not a URL or a path with a leading /, and cannot be read as a file: \(SystemError.words())")
        }
        if let archive = try? ArchiveReader(bytes) {
            let requests = (0..<archive.count).lazy.compactMap { archive.entry($0)["request"] }
            return requests.filter { $0["method"] == "GET" }.compactMap { $0["url"]?.string }
        }
        guard let document = JSONValue(bytes), document.members != nil else {
            let lines = bytes.split { $0 == 0x0a || $0 == 0x0d }.map { String(decoding: $0, as: UTF8.self) }
            return lines.map { $0.prefix { $0 != "#" }.trimmingWhitespace }.filter { !$0.isEmpty }
        }
        guard let paths = document["paths"]?.members else {
            throw AdminFailure("\(source) is neither an OpenAPI document nor an HTTP archive")
        }
        return paths.filter { !$0.name.contains("{") && $0.value["get"] != nil }.map(\.name)
    }

    /// Whether the path names a regular file.
    static func isFile(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    static let mistake = "skipped, because it is neither a path nor a URL; percent-encode spaces and characters outside ASCII"

    /// Returns path and query, valid in a request line; nil if the text is neither a path nor a URL.
    static func target(_ text: String) -> String? {
        var rest = Substring(text)
        for scheme in ["https://", "http://"] where text.hasPrefix(scheme) {
            rest = rest.dropFirst(scheme.count)
            rest = rest[(rest.firstIndex { "/?#".contains($0) } ?? rest.endIndex)...]
            if !rest.hasPrefix("/") { rest = "/" + rest }
        }
        rest = rest.prefix { $0 != "#" }
        return rest.hasPrefix("/") && rest.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f } ? String(rest) : nil
    }
}

extension StringProtocol {
    fileprivate var trimmingWhitespace: String {
        String(drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}
