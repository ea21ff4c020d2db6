// Plays that never end: they end the run, with their names and with what each thread is doing. A thread that waits can't be told to stop.

import Dispatch
import Glibc
import Locking
import Testing

/// For suites of plays over sockets.
package struct PlayTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(PlayThreads.shared) {
            let number = PlayWatch.begin("\(test.displayName ?? test.name) (\(test.id))")
            defer { PlayWatch.end(number) }
            try await function()
        }
    }
}

/// Where plays run. They wait for other threads and processes, and block their own meanwhile; and Swift Testing has no more threads than there are
/// cores, which then would do nothing. What came last runs first: the next test of a serialized suite, which comes when the one before it is over, does
/// not wait for all that came at the beginning, and those suites are not left alone at the end.
private final class PlayThreads: TaskExecutor {
    static let shared = PlayThreads(count: 2 * max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))

    /// Added to by whoever has work, taken from by the threads.
    private let jobs = Mutex<[UnownedJob]>([])
    /// Once for each of them.
    private let ready = DispatchSemaphore(value: 0)

    private init(count: Int) { for _ in 0..<count { TestThread.start { self.run() } } }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        ready.signal()
    }

    private func run() {
        while true {
            ready.wait()
            jobs.withLock { $0.removeLast() }.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

extension Trait where Self == PlayTrait {
    package static var play: Self { PlayTrait() }
}

/// What runs, and since when.
private enum PlayWatch {
    private struct State {
        var plays: [Int: (name: String, since: Int)] = [:]
        var count = 0
        /// When one began or ended last.
        var lastMove = now
    }

    private static let state = Mutex(State())

    /// In seconds. Most take a tenth of one, the longest ten; a busy machine and sanitizers take many times that.
    private static let patience = 300

    private static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec
    }

    static func begin(_ name: String) -> Int {
        let number = state.withLock { state in
            state.count += 1
            state.lastMove = now
            state.plays[state.count] = (name, now)
            return state.count
        }
        if number == 1 { TestThread.start(watch) }
        return number
    }

    static func end(_ number: Int) {
        state.withLock { state in
            state.plays[number] = nil
            state.lastMove = now
        }
    }

    /// Also where all have ended and the process goes on.
    @Sendable private static func watch() {
        while true {
            sleep(1)
            let (stuck, isQuiet) = state.withLock { state in
                (state.plays.values.filter { now - $0.since > patience }.map(\.name), now - state.lastMove > patience)
            }
            guard isQuiet || !stuck.isEmpty else { continue }
            let names = stuck.isEmpty ? "no play has begun or ended" : "not ended:\n" + stuck.joined(separator: "\n")
            let sentence = Array("within \(patience) s: \(names)\n".utf8)
            _ = write(STDERR_FILENO, sentence, sentence.count)
            abort()
        }
    }
}
