// The program's own log, written by a queue of its own: standard error may be a pipe that nobody reads, and then a write waits for ever. What
// cannot be written in time is dropped, and a line says how many were.

import Descriptors
import Dispatch
import Glibc
import Locking

public final class LogWriter: Sendable {
    private struct State {
        var lines: [String] = []
        var bytes = 0
        var dropped = 0
    }

    private let descriptor: Int32
    private let serial = DispatchQueue(label: "cistern.log", qos: .utility)
    /// Everybody appends, the queue takes.
    private let state = Mutex(State())

    /// What may wait.
    private static let limitBytes = 1 << 20

    public init(descriptor: Int32 = STDERR_FILENO) { self.descriptor = descriptor }

    /// - Parameter line: with its line feed. From any thread.
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

    /// Returns when all is written, or after `seconds`, since who does not read must not hold up the end either.
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
        if dropped > 0 { write("\(dropped) lines of this log were dropped, since nobody read it\n") }
    }

    private func write(_ line: String) {
        _ = WholeWrite.write(Array(line.utf8), to: descriptor)
    }
}
