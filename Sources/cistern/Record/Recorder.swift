// Holds recorded exchanges of all shards in memory, and writes them at the end.

import Archives
import CSystem
import ContentCodings
import Glibc
import HTTPCore
import Reactor
import ReverseProxy

final class Recorder: ExchangeRecorder {
    /// Maximum memory of recorded exchanges. Exchanges beyond it are served, but not recorded.
    static let heldLimitBytes = 256 << 20

    private struct State {
        var next = 0
        var held = 0
        var exchanges: [RecordedExchange] = []
        var omitted: [NotRecordedReason: UInt64] = [:]
    }

    /// Accessed by all shards' event loops.
    private let state = Mutex(State())
    private let filter: RecordingFilter

    init(_ filter: RecordingFilter = RecordingFilter()) { self.filter = filter }

    var requestContentLimitBytes: Int { ReplayLimits.contentBytes }

    func begin(_ request: RequestHead) -> Int? {
        let isSelected = filter.selects(request)
        return state.withLock { state in
            guard isSelected else {
                state.omitted[.excluded, default: 0] += 1
                return nil
            }
            state.next += 1
            return state.next
        }
    }

    func hold(_ bytes: Int) -> Bool {
        state.withLock { state in
            guard state.held + bytes <= Self.heldLimitBytes else { return false }
            state.held += bytes
            return true
        }
    }

    func take(_ exchange: RecordedExchange) { state.withLock { $0.exchanges.append(exchange) } }

    func leaveOut(_ reason: NotRecordedReason, held: Int) {
        state.withLock { state in
            state.held -= held
            state.omitted[reason, default: 0] += 1
        }
    }

    var counts: [(result: String, count: UInt64)] {
        state.withLock { state in
            [("recorded", UInt64(state.exchanges.count))] + NotRecordedReason.allCases.map { ($0.rawValue, state.omitted[$0] ?? 0) }
        }
    }

    var summary: String {
        let (count, omitted) = state.withLock { ($0.exchanges.count, $0.omitted) }
        let reasons = NotRecordedReason.allCases.compactMap { reason in omitted[reason].map { "\($0) because \(reason.sentence)" } }
        return "\(count) exchanges recorded" + (reasons.isEmpty ? "" : "; omitted: " + reasons.joined(separator: ", "))
    }

    var isEmpty: Bool { state.withLock { $0.exchanges.isEmpty } }

    /// Writes the exchanges in the order of the requests.
    /// - Parameter upstream: base URL.
    func write(to file: NewFile, _ writer: ArchiveWriter, upstream: String) throws(NewFile.Failure) {
        var writer = writer
        try file.write(writer.opening)
        for exchange in state.withLock({ $0.exchanges }).sorted(by: { $0.number < $1.number }) {
            let archived = ArchivedExchange(
                exchange.request, exchange.requestContent, exchange.response, exchange.content, upstream: upstream,
                started: exchange.started, duration: exchange.milliseconds)
            try file.write(writer.entry(archived))
        }
        try file.write(writer.closing)
    }
}

extension ArchivedExchange {
    /// Maximum length of decoded content. Longer content stays encoded.
    private static let decodedLimitBytes = 64 << 20

    /// - Parameters:
    ///   - response: as the upstream sent it, without hop-by-hop fields.
    ///   - upstream: base URL.
    init(
        _ request: RequestHead, _ requestContent: [UInt8], _ response: ResponseHead, _ content: [UInt8], upstream: String, started: Int64,
        duration: Int64
    ) {
        var (content, isDecoded) = (content, false)
        // The client's Host names this proxy. The recorded URL names the upstream.
        var fields = request.fields
        fields.remove(.host)
        if let coding = ContentCoding(response.fields), coding != .identity, !content.isEmpty,
            let decoded = try? ContentDecoder.decode(content, coding, limit: Self.decodedLimitBytes)
        {
            (content, isDecoded) = (decoded, true)
        }
        self.init(
            method: request.method.bytes, url: upstream + String(decoding: RequestTarget.escaped(request.pathAndQuery), as: UTF8.self),
            requestFields: fields, requestContent: requestContent, response: response, content: content, isDecoded: isDecoded,
            started: started, duration: duration)
    }
}

/// Writes a file atomically: an existing file is replaced when the new one is complete. Only the owner has access to a new file.
final class NewFile {
    struct Failure: Error, CustomStringConvertible {
        let description: String

        /// Describes `errno`.
        init(_ path: String) { description = "\(path): \(SystemError.words())" }
    }

    let path: String
    private let temporary: String
    private let file: Descriptor
    private let isUpdate: Bool
    private var isPending = false

    /// - Parameter isUpdate: whether symbolic links are followed, and the mode of an existing file is kept.
    init(_ path: String, isUpdate: Bool = false) throws(Failure) {
        let path = isUpdate ? FilePath.resolved(path) : path
        (self.path, self.isUpdate) = (path, isUpdate)
        temporary = "\(path).\(getpid()).new"
        file = Descriptor(csystem_open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard file.isOpen else { throw Failure(path) }
        isPending = true
    }

    deinit { if isPending { unlink(temporary) } }

    func write(_ bytes: [UInt8]) throws(Failure) {
        guard WholeWrite.write(bytes, to: file.number) == bytes.count else { throw Failure(temporary) }
    }

    /// Writes the pieces, and replaces the existing file.
    func finish(with pieces: [[UInt8]]) throws(Failure) {
        for piece in pieces { try write(piece) }
        try finish()
    }

    /// Replaces the existing file.
    func finish() throws(Failure) {
        if isUpdate, let mode = FilePath.mode(path) { fchmod(file.number, mode) }
        guard fsync(file.number) == 0, rename(temporary, path) == 0 else { throw Failure(path) }
        isPending = false
    }
}
