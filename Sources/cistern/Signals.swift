// Signals: SIGTERM and SIGINT end the process in good order, a second one at once; SIGHUP reopens the access log; SIGPIPE is ignored.

import Dispatch
import Glibc

final class Signals {
    private let stopped = DispatchSemaphore(value: 0)
    private let queue = DispatchQueue(label: "cistern.signals")
    private var sources: [any DispatchSourceSignal] = []

    /// From now on the signals do not end the process by themselves.
    init() {
        signal(SIGPIPE, SIG_IGN)
        for number in [SIGTERM, SIGINT, SIGHUP] { signal(number, SIG_IGN) }
    }

    /// Returns when the process is told to stop.
    func wait(onHangUp: @escaping @Sendable () -> Void = {}) {
        for number in [SIGTERM, SIGINT] {
            watch(number) { [stopped] in
                stopped.signal()
                // The next one is not waited for: whoever sends it wants out.
                signal(number, SIG_DFL)
            }
        }
        watch(SIGHUP, onHangUp)
        stopped.wait()
    }

    private func watch(_ number: Int32, _ action: @escaping @Sendable () -> Void) {
        let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
        source.setEventHandler(handler: action)
        source.activate()
        sources.append(source)
    }
}
