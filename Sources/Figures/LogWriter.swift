// Writer of the program's log, with a separate queue, because standard error may be a pipe without a reader and writing would then block
// forever. Lines that do not fit into the buffer are dropped, and a line reports their number.

import Dispatch
import Glibc
import Reactor

public final class LogWriter: Sendable {
    private struct State {
        var lines: [String] = []
        var bytes = 0
        var dropped = 0
    }

    private let descriptor: Int32
    private let serial = DispatchQueue(label: "cistern.log", qos: .utility)
    /// Lines appended by all threads and removed by the queue.
    private let state = Mutex(State())

    /// Maximum bytes of waiting lines.
    private static let limitBytes = 1 << 20

    public init(descriptor: Int32 = STDERR_FILENO) { self.descriptor = descriptor }

    /// Appends a line. May be called from any thread.
    /// - Parameter line: the line, including its line feed.
    public func append(_ line: String) {
        let isFirst = state.withLock { state in
            guard state.bytes + line.utf8.count <= Self.limitBytes else {
                state.dropped += 1
                return false
            }
            state.lines.append(line)
            state.bytes += line.utf8.count
            return state.lines.count == 1
        }
        if isFirst { serial.async { self.writeOut() } }
    }

    /// Returns when all lines are written, or after `seconds`, because a missing reader must not delay the end of the process.
    public func finish(within seconds: Int = 1) {
        let done = DispatchSemaphore(value: 0)
        serial.async { done.signal() }
        _ = done.wait(timeout: .now() + .seconds(seconds))
    }

    private func writeOut() {
        let (lines, dropped) = state.withLock { state in
            defer { state = State() }
            return (state.lines, state.dropped)
        }
        for line in lines { write(line) }
        if dropped > 0 { write("\(dropped) log lines were dropped, because the reader of standard error is too slow\n") }
    }

    private func write(_ line: String) {
        _ = WholeWrite.write(Array(line.utf8), to: descriptor)
    }
}
