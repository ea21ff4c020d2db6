// Where the keys of a route's tokens come from, a file or a URL, and when they are read again. What was fetched is kept in a file, so that
// the keys are there when the network is not. Requests never wait for keys: they go by those that are there.

import Descriptors
import Glibc
import Locking
import Reactor
import Synchronization

public final class KeySource: Sendable {
    public enum Place: Sendable, Equatable {
        case file(String)
        /// - Parameters:
        ///   - kept: the file that keeps what was fetched; nil where nothing is stored.
        ///   - authorities: the file of the certificates that the URL's is checked against; nil for the system's.
        case url(String, kept: String?, authorities: String? = nil)
    }

    /// What happened, for the log.
    public enum Event: Sendable, Equatable {
        case read(keys: Int, refused: [String])
        /// - Parameter hasKeys: whether earlier ones are used meanwhile.
        case failed(String, hasKeys: Bool)
    }

    private struct State {
        var keys = KeySet()
        var text: [UInt8] = []
        var isReading = false
        /// When it was last tried, and when it last succeeded: milliseconds of the monotonic clock.
        var triedAt: Int64?
        var readAt: Int64?
        var readCount = 0
        var failedCount = 0
    }

    /// A key that nobody knows is looked for no more often, for all: any client can name one.
    public static let unknownKeyPauseMilliseconds: Int64 = 30_000
    /// Keys are read again so often, so that one that was withdrawn is not trusted for longer.
    public static let refreshMilliseconds: Int64 = 600_000

    public let place: Place
    private let state = Mutex(State())
    private let changes = Atomic<UInt64>(0)
    private let tell: @Sendable (Event) -> Void
    /// Runs what blocks beside the loops.
    private let run: @Sendable (@escaping @Sendable () -> Void) -> Bool

    /// - Parameter tell: is called on any thread.
    public init(
        _ place: Place, run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool = PlainThread.start,
        tell: @escaping @Sendable (Event) -> Void
    ) {
        (self.place, self.run, self.tell) = (place, run, tell)
    }

    /// Goes up whenever the keys are others: what was verified with those before counts no longer.
    public var version: UInt64 { changes.load(ordering: .acquiring) }

    /// How many keys are there, and how often they were read, or could not be.
    public var figures: (keys: Int, read: Int, failed: Int) {
        state.withLock { ($0.keys.keys.count, $0.readCount, $0.failedCount) }
    }

    /// The keys that are there. Begins to read them again where they are old.
    public func keys(now: Int64) -> KeySet {
        let (keys, isDue) = state.withLock { state in
            (state.keys, Self.isDue(state, now: now, after: Self.refreshMilliseconds))
        }
        if isDue { read(now: now) }
        return keys
    }

    /// A token names a key that is not among them: perhaps it is new.
    public func miss(now: Int64) {
        let isDue = state.withLock { Self.isDue($0, now: now, after: Self.unknownKeyPauseMilliseconds) }
        if isDue { read(now: now) }
    }

    /// Reads what a start has to have: the file, or what was kept; and begins to fetch what is to be fetched. Blocks for as long as reading a
    /// file does.
    public func start(now: Int64) {
        switch place {
        case .file: readNow(now: now)
        case .url(let url, let kept, _):
            if let kept, let text = Self.kept(of: url, in: kept), let set = KeySet(text) { use(set, text, at: nil) }
            read(now: now)
        }
    }

    private static func isDue(_ state: State, now: Int64, after pause: Int64) -> Bool {
        guard !state.isReading else { return false }
        guard let tried = state.triedAt else { return true }
        // What failed is tried again sooner than what succeeded grows old.
        let wait = state.readAt == tried ? pause : min(pause, unknownKeyPauseMilliseconds)
        return now - tried >= wait
    }

    private func read(now: Int64) {
        let begins = state.withLock { state in
            guard !state.isReading else { return false }
            (state.isReading, state.triedAt) = (true, now)
            return true
        }
        guard begins else { return }
        guard run({ self.readNow(now: now) }) else {
            state.withLock { $0.isReading = false }
            return
        }
    }

    private func readNow(now: Int64) {
        defer {
            state.withLock {
                $0.isReading = false
                $0.triedAt = now
            }
        }
        do throws(KeyFetch.Failure) {
            let text = try text()
            guard let set = KeySet(text) else {
                throw KeyFetch.Failure(sentence: "it is no JWK Set (RFC 7517) of at most 512 KiB and 256 keys")
            }
            // An issuer without a key signs nothing: this is a mistake, and what was read before is better.
            guard !set.keys.isEmpty else {
                throw KeyFetch.Failure(sentence: "it has \(set.whyUnusable)")
            }
            use(set, text, at: now)
            if case .url(let url, let kept?, _) = place { Self.keep(text, of: url, in: kept) }
        } catch {
            let hasKeys = state.withLock { state in
                state.failedCount += 1
                return !state.keys.keys.isEmpty
            }
            tell(.failed(error.sentence, hasKeys: hasKeys))
        }
    }

    private func text() throws(KeyFetch.Failure) -> [UInt8] {
        switch place {
        case .url(let url, _, let authorities): return try KeyFetch.get(url, authorities: authorities)
        case .file(let path):
            guard let text = Self.contents(path) else { throw KeyFetch.Failure(sentence: SystemError.words()) }
            return text
        }
    }

    /// - Parameter time: when it was read; nil for what was kept.
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
        tell(.read(keys: set.keys.count, refused: set.refused.map { "\($0.name): \($0.reason.rawValue)" }))
    }

    // MARK: Files

    private static func contents(_ path: String, limit: Int = KeySet.byteLimit) -> [UInt8]? {
        let file = Descriptor(open(path, O_RDONLY | O_CLOEXEC))
        guard file.isOpen else { return nil }
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        var count = 0
        while count < bytes.count {
            let taken = bytes.withUnsafeMutableBytes { Glibc.read(file.number, $0.baseAddress.map { $0 + count }, $0.count - count) }
            if taken < 0 { return nil }
            if taken == 0 { break }
            count += taken
        }
        return Array(bytes.prefix(count))
    }

    /// What was fetched from that URL: a line before the keys names it, so that one issuer's keys are never taken for another's.
    private static func kept(of url: String, in path: String) -> [UInt8]? {
        let line = firstLine(url)
        guard let text = contents(path, limit: KeySet.byteLimit + line.count), text.starts(with: line) else { return nil }
        return Array(text.dropFirst(line.count))
    }

    private static func firstLine(_ url: String) -> [UInt8] { Array("\(url)\n".utf8) }

    /// Whole or not at all. That it cannot be kept harms nobody now.
    private static func keep(_ keys: [UInt8], of url: String, in path: String) {
        let text = firstLine(url) + keys
        let new = path + ".new"
        let isWritten: Bool
        do {
            let file = Descriptor(open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
            isWritten = file.isOpen && WholeWrite.write(text, to: file.number) == text.count && fsync(file.number) == 0
        }
        if isWritten { rename(new, path) }
    }
}
