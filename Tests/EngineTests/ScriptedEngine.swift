// A server that a test scripts, over real sockets. It parses commands with the parser for replies. Blocking, with one thread per
// connection.

import CSystem
import Dispatch
import Glibc
import Reactor
import TestSupport

@testable import Engine

enum EngineStep: Sendable {
    case reply(String)
    /// Waits until the test opens the gate.
    case pass(Gate)
    case close
}

final class ScriptedEngine: Sendable {
    /// nil: the reply of a standalone, empty server.
    typealias Script = @Sendable ([String]) -> [EngineStep]?

    let port: UInt16

    private struct State {
        var listener: Int32 = -1
        var connections: Set<Int32> = []
        var connectionCount = 0
        var commands: [[String]] = []
        var script: Script
    }

    /// Shared by the test and the connections.
    private let state: Mutex<State>
    private let arrived = DispatchSemaphore(value: 0)

    init(_ script: @escaping Script = { _ in nil }) {
        port = TestTools.freePort()
        state = Mutex(State(script: script))
        up()
    }

    deinit { down() }

    var server: EngineServer { .host("127.0.0.1", port: port) }
    /// Commands except those that the client sends unprompted.
    var commands: [[String]] { state.withLock { $0.commands.filter { $0 != ["CLUSTER", "SLOTS"] && $0[0] != "PING" } } }
    var allCommands: [[String]] { state.withLock { $0.commands } }
    var connectionCount: Int { state.withLock { $0.connectionCount } }

    func react(_ script: @escaping Script) { state.withLock { $0.script = script } }

    /// False after 30 seconds.
    func wait(until isThere: (ScriptedEngine) -> Bool) -> Bool {
        while !isThere(self) { if arrived.wait(timeout: .now() + 30) == .timedOut { return false } }
        return true
    }

    func down() {
        state.withLock { state in
            guard state.listener >= 0 else { return }
            shutdown(state.listener, Int32(SHUT_RDWR))
            state.listener = -1
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    func up() {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var one: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 }
        }
        precondition(isBound && listen(listener, 64) == 0, "the engine cannot have its port")
        state.withLock { $0.listener = listener }
        TestThread.start { [weak self] in
            while true {
                let connection = csystem_accept(listener, nil, nil)
                guard connection >= 0, let self else { break }
                _ = fcntl(connection, F_SETFL, 0)
                state.withLock { state in
                    state.connections.insert(connection)
                    state.connectionCount += 1
                }
                arrived.signal()
                TestThread.start { self.serve(connection) }
            }
            close(listener)
        }
    }

    private func serve(_ connection: Int32) {
        let reader = ReplyReader(limits: EngineLimits())
        var piece = [UInt8](repeating: 0, count: 65_536)
        reading: while true {
            let count = recv(connection, &piece, piece.count, 0)
            guard count > 0 else { break }
            piece.withUnsafeBytes { reader.feed(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            while let command = reader.next() {
                let words = command.list?.map { String(decoding: $0.text ?? [], as: UTF8.self) } ?? []
                // The reply is chosen before the command becomes visible to the test.
                let steps = state.withLock({ $0.script })(words) ?? [.reply(Self.usual(words))]
                state.withLock { $0.commands.append(words) }
                arrived.signal()
                for step in steps where !perform(step, connection) { break reading }
            }
        }
        state.withLock { _ = $0.connections.remove(connection) }
        close(connection)
    }

    private func perform(_ step: EngineStep, _ connection: Int32) -> Bool {
        switch step {
        case .reply(let text):
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty {
                let count = bytes.withUnsafeBytes { send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                guard count > 0 else { return false }
                bytes = bytes.dropFirst(count)
            }
        case .pass(let gate): gate.pass()
        case .close:
            shutdown(connection, Int32(SHUT_RDWR))
            return false
        }
        return true
    }

    static func usual(_ words: [String]) -> String {
        switch words.first {
        case "CLUSTER": "-ERR This instance has cluster support disabled\r\n"
        case "PING" where words.count > 1: "$\(words[1].utf8.count)\r\n\(words[1])\r\n"
        case "GET": "$-1\r\n"
        default: "+OK\r\n"
        }
    }

    /// Reply to CLUSTER SLOTS for these shares.
    static func slots(_ shares: [(ClosedRange<Int>, UInt16)]) -> String {
        "*\(shares.count)\r\n"
            + shares.map { range, port in
                "*3\r\n:\(range.lowerBound)\r\n:\(range.upperBound)\r\n*3\r\n$9\r\n127.0.0.1\r\n:\(port)\r\n$4\r\nnode\r\n"
            }.joined()
    }
}
