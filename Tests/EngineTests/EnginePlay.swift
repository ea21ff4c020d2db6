// A client on its own event loop, with a clock that the test moves.

import Dispatch
import Reactor
import TestSupport
import Testing

@testable import Engine

/// Outcome of a command.
final class Outcome: Sendable {
    private let state = Mutex<(replies: [EngineReply]?, late: [EngineReply]?, calls: Int)>((nil, nil, 0))
    private let told = DispatchSemaphore(value: 0)
    private let toldLate = DispatchSemaphore(value: 0)

    func put(_ replies: [EngineReply]) {
        state.withLock { state in
            state.replies = replies
            state.calls += 1
        }
        told.signal()
    }

    func putLate(_ replies: [EngineReply]) {
        state.withLock { $0.late = replies }
        toldLate.signal()
    }

    /// Waits for the replies; empty after 30 seconds.
    var replies: [EngineReply] {
        guard told.wait(timeout: .now() + 30) == .success else { return [] }
        told.signal()
        return state.withLock { $0.replies ?? [] }
    }

    var reply: EngineReply? { replies.first }

    var late: [EngineReply] {
        guard toldLate.wait(timeout: .now() + 30) == .success else { return [] }
        return state.withLock { $0.late ?? [] }
    }

    var now: [EngineReply]? { state.withLock { $0.replies } }
    /// Number of calls of the completion handler.
    var calls: Int { state.withLock { $0.calls } }
}

final class EnginePlay: Sendable {
    let time: ManualTime?
    let loop: EventLoop
    let client: EngineClient
    /// Changes of the breakers that the client reported.
    let changes = Mutex<[EngineServerChange]>([])

    init(_ servers: [EngineServer], isRealTime: Bool = false, _ change: (inout EngineSettings) -> Void = { _ in }) {
        var settings = EngineSettings(servers: servers)
        change(&settings)
        if isRealTime { RealTimeTrait.expect() }
        time = isRealTime ? nil : ManualTime()
        loop = EventLoop(label: "engine", time: time ?? SystemTime.shared)
        client = EngineClient(loop: loop, settings)
        client.onChange = { [changes] _, change in changes.withLock { $0.append(change) } }
        loop.start()
    }

    convenience init(_ engine: ScriptedEngine, _ change: (inout EngineSettings) -> Void = { _ in }) { self.init([engine.server], change) }

    deinit {
        let ended = DispatchSemaphore(value: 0)
        loop.execute { [client, loop] in
            client.close()
            loop.stop { ended.signal() }
        }
        ended.wait()
    }

    func onLoop<Result: Sendable>(_ body: @escaping @Sendable (EngineClient) -> Result) -> Result {
        let result = Mutex<Result?>(nil)
        let done = DispatchSemaphore(value: 0)
        loop.execute { [client] in
            let value = body(client)
            result.withLock { $0 = value }
            done.signal()
        }
        done.wait()
        guard let value = result.withLock({ $0 }) else { preconditionFailure("no result") }
        return value
    }

    @discardableResult
    func begin(_ commands: [EngineCommand], patience: Int64? = nil) -> Outcome {
        let outcome = Outcome()
        onLoop { $0.sendAll(commands, patienceMilliseconds: patience, late: { outcome.putLate($0) }, then: { outcome.put($0) }) }
        return outcome
    }

    func begin(_ words: String..., keyAt: Int? = nil, patience: Int64? = nil) -> Outcome {
        begin([Self.command(words, keyAt)], patience: patience)
    }

    func ask(_ words: String..., keyAt: Int? = nil, patience: Int64? = nil) -> EngineReply? {
        begin([Self.command(words, keyAt)], patience: patience).reply
    }

    static func command(_ words: [String], _ keyAt: Int? = nil) -> EngineCommand {
        let arguments = words.map { Array($0.utf8) }
        return EngineCommand(arguments, key: keyAt.map { arguments[$0] })
    }

    /// Advances in steps, so that timers set by timers fire too.
    /// - Parameter settles: settle after each step. Do not use it while a server holds back replies.
    func advance(_ milliseconds: Int64, step: Int64 = 50, settles: Bool = false) {
        var left = milliseconds
        while left > 0 {
            time?.advance(by: .milliseconds(min(step, left)))
            left -= step
            turn()
            if settles { settle() }
        }
    }

    /// Advances until the condition holds; false after a minute of the test's clock.
    func advance(until isSo: @escaping @Sendable (EngineClient) -> Bool) -> Bool {
        for _ in 0..<1200 {
            settle()
            if onLoop({ isSo($0) }) { return true }
            advance(50)
        }
        return false
    }

    /// Waits until no command or connection attempt is pending.
    func settle() {
        turn()
        _ = wait { client in client.figures.commandsUnderWay == 0 && client.nodes.values.allSatisfy { !$0.isConnecting } }
        turn()
    }

    /// Waits until due work is done.
    func turn() { for _ in 0..<3 { onLoop { _ in } } }

    var isOpen: Bool { onLoop { $0.isOpen } }
    var figures: EngineFigures { onLoop { $0.figures } }

    /// Runs the loop until a condition holds that does not depend on the clock; false after 30 seconds.
    func wait(until isSo: @escaping @Sendable (EngineClient) -> Bool) -> Bool {
        let end = SystemTime.shared.monotonicMilliseconds + 30_000
        while SystemTime.shared.monotonicMilliseconds < end { if onLoop({ isSo($0) }) { return true } }
        return false
    }
}

extension EngineClient {
    /// Whether commands for this key are accepted now.
    func isOpen(forKey key: [UInt8]) -> Bool { isOpen && server(forKey: key).map { openFailure(of: $0) == nil } ?? true }
}
