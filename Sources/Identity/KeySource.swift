// The location of a route's token keys, a file or a URL, and the schedule for reading them. Fetched keys are stored in a file, so that they
// are available without the network. Requests never wait for keys; they use those that are available. A fetch sends no data of a request.

import Glibc
import OwnRequests
import Reactor
import Synchronization

public final class KeySource: Sendable {
    public enum Location: Sendable, Equatable {
        case file(String)
        /// - Parameters:
        ///   - kept: path of the file that stores fetched keys; nil to store none.
        ///   - authorities: path of a file with trusted certificates for the URL; nil for the system's.
        case url(String, kept: String?, authorities: String? = nil)
    }

    /// An event for the log.
    public enum Event: Sendable, Equatable {
        case read(keys: Int, refused: [String])
        /// - Parameter hasKeys: whether earlier keys remain in use.
        case failed(String, hasKeys: Bool)
    }

    /// Why the keys could not be read, as text for the operator.
    private struct Failure: Error {
        let sentence: String

        static let noKeySet = Failure(sentence: "it is not a JWK Set (RFC 7517) of at most 512 KiB and 256 keys")
    }

    private struct State {
        var keys = KeySet()
        var text: [UInt8] = []
        var isReading = false
        /// Time of the last attempt and of the last success, in milliseconds of the monotonic clock; nil if there was none.
        var triedAt: Int64?
        var readAt: Int64?
        var readCount = 0
        var failedCount = 0
    }

    /// Minimum interval between searches for unknown keys, for all requests. Any client can name an unknown key.
    public static let unknownKeyPauseMilliseconds: Int64 = 30_000
    /// Interval between reads of the keys. A withdrawn key is trusted for up to this long.
    public static let refreshMilliseconds: Int64 = 600_000

    public let location: Location
    private let state = Mutex(State())
    private let changes = Atomic<UInt64>(0)
    private let onEvent: @Sendable (Event) -> Void
    /// Runs blocking work off the event loops.
    private let run: @Sendable (@escaping @Sendable () -> Void) -> Bool

    /// - Parameter onEvent: called on any thread.
    public init(
        _ location: Location, run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool = PlainThread.start,
        onEvent: @escaping @Sendable (Event) -> Void
    ) {
        (self.location, self.run, self.onEvent) = (location, run, onEvent)
    }

    /// Increases whenever the keys change. Earlier verification results are then invalid.
    public var version: UInt64 { changes.load(ordering: .acquiring) }

    /// Number of keys, of successful reads and of failed reads.
    public var figures: (keys: Int, read: Int, failed: Int) {
        state.withLock { ($0.keys.keys.count, $0.readCount, $0.failedCount) }
    }

    /// Returns the available keys. Starts to read them again if they are old.
    public func keys(now: Int64) -> KeySet {
        defer { read(now: now, ifDueAfter: Self.refreshMilliseconds) }
        return state.withLock { $0.keys }
    }

    /// Reports a token with an unknown key name. The key may be new, so the keys are read again if the interval permits.
    public func miss(now: Int64) { read(now: now, ifDueAfter: Self.unknownKeyPauseMilliseconds) }

    /// Reads the file, or stored keys, and starts to fetch keys from a URL. Blocks while a file is read.
    public func start(now: Int64) {
        switch location {
        case .file: readNow(now: now)
        case .url(let url, let kept, _):
            if let kept, let text = Self.kept(of: url, in: kept), let set = KeySet(text) { use(set, text, at: nil) }
            read(now: now, ifDueAfter: 0)
        }
    }

    private static func isDue(_ state: State, now: Int64, after pause: Int64) -> Bool {
        guard !state.isReading else { return false }
        guard let tried = state.triedAt else { return true }
        // After a failure the next attempt follows sooner than after a success.
        let wait = state.readAt == tried ? pause : min(pause, unknownKeyPauseMilliseconds)
        return now - tried >= wait
    }

    /// Starts to read the keys, unless they are being read, or were read less than `pause` milliseconds ago.
    private func read(now: Int64, ifDueAfter pause: Int64) {
        let begins = state.withLock { state in
            guard Self.isDue(state, now: now, after: pause) else { return false }
            (state.isReading, state.triedAt) = (true, now)
            return true
        }
        if begins, !run({ self.readNow(now: now) }) { state.withLock { $0.isReading = false } }
    }

    private func readNow(now: Int64) {
        defer {
            state.withLock {
                $0.isReading = false
                $0.triedAt = now
            }
        }
        do throws(Failure) {
            let text = try text()
            guard let set = KeySet(text) else { throw .noKeySet }
            // A set without usable keys is probably a mistake of the issuer, so the former keys remain in use.
            guard !set.keys.isEmpty else { throw Failure(sentence: "it has \(set.unusableReason)") }
            use(set, text, at: now)
            if case .url(let url, let kept?, _) = location { Self.keep(text, of: url, in: kept) }
        } catch {
            let hasKeys = state.withLock { state in
                state.failedCount += 1
                return !state.keys.keys.isEmpty
            }
            onEvent(.failed(error.sentence, hasKeys: hasKeys))
        }
    }

    /// Blocks.
    private func text() throws(Failure) -> [UInt8] {
        switch location {
        case .file(let path):
            if let text = FileContent.read(path, limit: KeySet.byteLimit) { return text }
            throw errno == EFBIG ? .noKeySet : Failure(sentence: SystemError.words())
        case .url(let url, _, let authorities):
            switch OwnRequest(url, authorities: authorities, limitBytes: KeySet.byteLimit).get() {
            case .failed(let sentence): throw Failure(sentence: sentence)
            case .answered(200, _, let content?): return content
            case .answered(200, _, nil): throw Failure(sentence: "the response is longer than \(KeySet.byteLimit) bytes")
            case .answered(let status, _, _): throw Failure(sentence: "the response has status \(status)")
            }
        }
    }

    /// - Parameter time: when the keys were read; nil for stored keys.
    private func use(_ set: KeySet, _ text: [UInt8], at time: Int64?) {
        let isNew = state.withLock { state in
            if let time {
                state.readAt = time
                state.readCount += 1
            }
            guard state.text != text else { return false }
            (state.keys, state.text) = (set, text)
            return true
        }
        guard isNew else { return }
        changes.add(1, ordering: .acquiringAndReleasing)
        onEvent(.read(keys: set.keys.count, refused: set.refused.map { "\($0.name): \($0.reason.rawValue)" }))
    }

    // MARK: Files

    /// Returns the keys stored from this URL. The first line of the file names the URL, so that keys of one issuer are never used for
    /// another.
    private static func kept(of url: String, in path: String) -> [UInt8]? {
        let line = firstLine(url)
        guard let text = FileContent.read(path, limit: KeySet.byteLimit + line.count), text.starts(with: line) else { return nil }
        return Array(text.dropFirst(line.count))
    }

    private static func firstLine(_ url: String) -> [UInt8] { Array("\(url)\n".utf8) }

    /// Stores the keys completely or not at all. A failure is ignored, because the keys in memory are valid.
    private static func keep(_ keys: [UInt8], of url: String, in path: String) {
        _ = WholeWrite.replace(path, with: firstLine(url) + keys)
    }
}
