// Ends the run if a play never ends, and prints the play's name and the state of each thread. Blocked threads cannot be cancelled.

import Dispatch
import Glibc
import Reactor
import Testing

/// Trait for suites of plays over sockets.
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

/// Threads that run plays. Plays block their threads while they wait for other threads and processes, and Swift Testing has only one thread
/// per core. The latest job runs first, so that serialized suites do not fall behind. Their next test would otherwise wait for all tests
/// that were submitted at the beginning.
private final class PlayThreads: TaskExecutor {
    static let shared = PlayThreads(count: 2 * max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))

    /// Filled by all who submit work, emptied by the threads.
    private let jobs = Mutex<[UnownedJob]>([])
    /// Signalled once per job.
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

/// Running plays with their start times.
private enum PlayWatch {
    private struct State {
        var plays: [Int: (name: String, since: Int)] = [:]
        var count = 0
        /// Time of the last start or end of a play.
        var lastMove = now
    }

    private static let state = Mutex(State())

    /// Maximum duration of a play in seconds. Most plays take a tenth of a second, the longest ten seconds. Busy machines and sanitizers
    /// multiply that.
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

    /// Also ends a process that keeps running after all plays have ended.
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
