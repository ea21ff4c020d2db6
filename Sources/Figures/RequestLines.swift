// Lines about requests on a terminal. A separate queue writes them, because a terminal may be slow or stopped (Ctrl-S). The number of lines is
// limited, which bounds memory and time. Further requests are counted, and a line reports their number.

import Dispatch
import Glibc
import Reactor
import Synchronization

public final class RequestLines: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var lines = 0
        /// Lines in `bytes`, and lines that are being built.
        var reserved = 0
        var omitted = 0
        var omittedInAll = 0
    }

    public let isColoured: Bool
    private let descriptor: Int32
    private let serial = DispatchQueue(label: "cistern.request-lines", qos: .utility)
    /// Shards append lines; the queue removes them.
    private let state = Mutex(State())
    /// Read by all shards, changed by a reload.
    private let isOn = Atomic(true)

    /// Maximum number of lines in an interval, and the interval in milliseconds: 500 lines per second.
    static let limit = 50
    private static let interval = 100

    public init(descriptor: Int32 = STDERR_FILENO, isColoured: Bool) { (self.descriptor, self.isColoured) = (descriptor, isColoured) }

    public func turn(on isOn: Bool) { self.isOn.store(isOn, ordering: .relaxed) }

    /// Reserves space for a line, which `append` must follow. May be called from any shard.
    /// - Returns: false if the line must be omitted.
    public func reserve() -> Bool {
        guard isOn.load(ordering: .relaxed) else { return false }
        return state.withLock { state in
            guard state.reserved < Self.limit else {
                state.omitted += 1
                state.omittedInAll += 1
                return false
            }
            state.reserved += 1
            return true
        }
    }

    /// Appends a line, including its line feed.
    public func append(_ line: [UInt8]) {
        let isFirst = state.withLock { state in
            state.bytes += line
            state.lines += 1
            return state.lines == 1
        }
        if isFirst { serial.asyncAfter(deadline: .now() + .milliseconds(Self.interval)) { self.writeOut() } }
    }

    /// Number of requests without a line since the start.
    public var omitted: Int { state.withLock { $0.omittedInAll } }

    /// Returns when all lines are written, or after `seconds`, because a stopped terminal must not delay the end of the process.
    public func finish(within seconds: Int = 1) {
        let done = DispatchSemaphore(value: 0)
        serial.async {
            self.writeOut()
            done.signal()
        }
        _ = done.wait(timeout: .now() + .seconds(seconds))
    }

    private func writeOut() {
        let (bytes, omitted) = state.withLock { state in
            defer {
                state.reserved -= state.lines
                (state.bytes, state.lines, state.omitted) = ([], 0, 0)
            }
            return (state.bytes, state.omitted)
        }
        _ = WholeWrite.write(bytes, to: descriptor)
        guard omitted > 0 else { return }
        _ = WholeWrite.write(Array("… \(omitted) more \(omitted == 1 ? "request" : "requests")\n".utf8), to: descriptor)
    }
}
