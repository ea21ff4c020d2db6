// The access log, with one line per exchange. A separate queue writes the buffered lines, so that a slow disk or pipe never delays a
// response. The buffer is bounded; lines that do not fit are dropped and counted.

import CSystem
import Dispatch
import Glibc
import Reactor

/// `@unchecked Sendable` because mutable state is behind `state`'s mutex, or used on `serial` only.
public final class AccessLog: @unchecked Sendable {
    public enum Format: String, Sendable, CaseIterable { case json, common, combined }

    public let format: Format
    /// The fields of a JSON line, in order. In the other formats only the query is configurable.
    public let fields: [AccessField]
    /// Whether lines contain request IDs.
    public let namesRequests: Bool
    private let path: String?
    private let serial = DispatchQueue(label: "cistern.access-log", qos: .utility)
    private var file: Descriptor
    private var timer: (any DispatchSourceTimer)?

    private struct State {
        var buffer: [UInt8] = []
        var dropped = 0
    }

    /// Shards append lines; the queue removes them.
    private let state = Mutex(State())

    private static let flushBytes = 64 * 1024
    private static let limitBytes = 4 << 20

    /// Opens the log.
    /// - Parameter path: path of the file; nil for standard output.
    /// - Returns: nil if the file cannot be opened.
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
        // Without `O_NONBLOCK`, opening a pipe without a reader would block.
        let opened = Descriptor(csystem_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o640))
        if opened.isOpen { _ = fcntl(opened.number, F_SETFL, fcntl(opened.number, F_GETFL) & ~O_NONBLOCK) }
        return opened
    }

    public var dropped: Int { state.withLock { $0.dropped } }

    /// Appends a line, including its line feed. May be called from any shard.
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

    /// Reopens the file after log rotation. If that fails, the old file remains in use.
    /// - Parameter failed: called with an errno if the file cannot be opened.
    public func reopen(failed: @escaping @Sendable (Int32) -> Void = { _ in }) {
        serial.async { [self] in
            writeOut()
            guard path != nil else { return }
            let opened = Self.open(path)
            guard opened.isOpen else { return failed(errno) }
            file = opened
        }
    }

    /// Writes all lines and ends, at the latest after `seconds`, because a pipe may have no reader.
    public func finish(within seconds: Int = 5) {
        let done = DispatchSemaphore(value: 0)
        serial.async {
            self.timer?.cancel()
            self.writeOut()
            done.signal()
        }
        _ = done.wait(timeout: .now() + .seconds(seconds))
    }

    /// Counts lines that the disk did not accept as dropped.
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
