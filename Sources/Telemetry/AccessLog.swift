// The access log: one line an exchange, gathered in memory and written by a queue of its own, so that a slow disk or pipe never holds an
// response up. Bounded: what cannot be written in time is dropped and counted.

import CSystem
import Descriptors
import Dispatch
import Glibc
import Locking

/// `@unchecked Sendable` because what changes is behind `state`'s mutex, or touched on `serial` only.
public final class AccessLog: @unchecked Sendable {
    public enum Format: String, Sendable, CaseIterable { case json, common, combined }

    public let format: Format
    /// Of JSON, in their order; of the other forms only the query is a matter of choice.
    public let fields: [AccessField]
    /// Whether its lines have the requests' names.
    public let namesRequests: Bool
    private let path: String?
    private let serial = DispatchQueue(label: "cistern.access-log", qos: .utility)
    private var file: Descriptor
    private var timer: (any DispatchSourceTimer)?

    private struct State {
        var buffer: [UInt8] = []
        var dropped = 0
    }

    /// Shards append, the queue takes.
    private let state = Mutex(State())

    private static let flushBytes = 64 * 1024
    private static let limitBytes = 4 << 20

    /// - Parameter path: nil for standard output.
    /// - Returns: nil where the file cannot be opened.
    public init?(path: String?, format: Format, fields: [AccessField] = AccessField.usual) {
        self.path = path
        (self.format, self.fields) = (format, fields)
        namesRequests = format == .json && fields.contains(.requestID)
        let opened = Self.open(path)
        guard opened.isOpen else { return nil }
        file = opened
        let timer = DispatchSource.makeTimerSource(queue: serial)
        timer.schedule(deadline: .now() + 1, repeating: 1)
        timer.setEventHandler { [weak self] in self?.writeOut() }
        timer.activate()
        self.timer = timer
    }

    private static func open(_ path: String?) -> Descriptor {
        guard let path else { return Descriptor(csystem_duplicate(STDOUT_FILENO)) }
        // A pipe that nobody reads would be waited for.
        let opened = Descriptor(csystem_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o640))
        if opened.isOpen { _ = fcntl(opened.number, F_SETFL, fcntl(opened.number, F_GETFL) & ~O_NONBLOCK) }
        return opened
    }

    public var dropped: Int { state.withLock { $0.dropped } }

    /// Appends a line, with its line feed. From any shard.
    public func append(_ line: [UInt8]) {
        let isFull = state.withLock { state in
            guard state.buffer.count + line.count <= Self.limitBytes else {
                state.dropped += 1
                return false
            }
            let before = state.buffer.count
            state.buffer += line
            return before < Self.flushBytes && state.buffer.count >= Self.flushBytes
        }
        if isFull { serial.async { self.writeOut() } }
    }

    /// Opens the file anew (after it was rotated away). Where it cannot be opened the old one is written to further.
    /// - Parameter failed: is told why not (errno).
    public func reopen(failed: @escaping @Sendable (Int32) -> Void = { _ in }) {
        serial.async { [self] in
            writeOut()
            guard path != nil else { return }
            let opened = Self.open(path)
            guard opened.isOpen else { return failed(errno) }
            file = opened
        }
    }

    /// Writes everything and ends; after `seconds` it ends all the same, since nobody may be reading.
    public func finish(within seconds: Int = 5) {
        let done = DispatchSemaphore(value: 0)
        serial.async {
            self.timer?.cancel()
            self.writeOut()
            done.signal()
        }
        _ = done.wait(timeout: .now() + .seconds(seconds))
    }

    /// The disk did not take these lines.
    private func drop(_ lines: ArraySlice<UInt8>) {
        let count = lines.count { $0 == 0x0a }
        state.withLock { $0.dropped += count }
    }

    private func writeOut() {
        let bytes = state.withLock { state in
            defer { state.buffer = [] }
            return state.buffer
        }
        let written = WholeWrite.write(bytes, to: file.number)
        if written < bytes.count { drop(bytes[written...]) }
    }
}
