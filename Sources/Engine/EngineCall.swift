// What a caller waits for: commands of one slot, sent in one go, and their replies.

import Reactor

/// Belongs to one loop.
final class EngineCall {
    private(set) var commands: [EngineCommand]
    /// nil: any server will do.
    let slot: Int?
    /// Where only this one will do: what the client asks for itself.
    let pinned: EngineServer?
    let deadline: Int64
    private(set) var replies: [EngineReply?]
    var redirections = 0
    /// Patience is over; replies that come yet are for `late`.
    private(set) var isExpired = false
    /// Nobody waits for anything any more.
    private(set) var isFinished = false
    /// Commands are on their way, or wait to be sent again.
    var isUnderWay = false
    /// By whom, and when it was sent last; nil where it was not.
    weak var node: EngineNode?
    var sent: Int64?
    private var then: (([EngineReply]) -> Void)?
    private var late: (([EngineReply]) -> Void)?

    init(
        _ commands: [EngineCommand], deadline: Int64, pinned: EngineServer? = nil, late: (([EngineReply]) -> Void)? = nil,
        then: @escaping ([EngineReply]) -> Void
    ) {
        self.commands = commands
        self.deadline = deadline
        self.pinned = pinned
        self.late = late
        self.then = then
        slot = commands.lazy.compactMap(\.key).first.map { KeySlot.of($0) }
        replies = [EngineReply?](repeating: nil, count: commands.count)
    }

    func put(_ reply: EngineReply, at place: Int) { replies[place] = reply }

    /// All that have no reply get this one.
    func fill(_ failure: EngineFailure) {
        for place in replies.indices where replies[place] == nil { replies[place] = .failed(failure) }
    }

    /// All replies are known, or why there are none.
    func finish() {
        guard !isFinished else { return }
        isFinished = true
        isUnderWay = false
        let result = replies.map { $0 ?? .failed(.closed) }
        let (then, late) = (then, late)
        letGo()
        if let then { then(result) } else { late?(result) }
    }

    /// What was replied so far goes to the caller; the rest is late.
    func expire() {
        guard !isExpired, !isFinished else { return }
        isExpired = true
        let then = then
        self.then = nil
        let result = replies.map { $0 ?? .failed(.timedOut) }
        if !isUnderWay {
            isFinished = true
            letGo()
        }
        then?(result)
    }

    /// What it holds may be large, and it is still in lines of those that wait.
    private func letGo() {
        commands = []
        replies = []
        (then, late) = (nil, nil)
    }
}

/// Some commands of a call on their way to one server.
final class EngineAttempt {
    let call: EngineCall
    /// In the order in which they are sent.
    let places: [Int]
    /// The server is told each time that it has the slot not yet for good.
    let isAsking: Bool
    private var missing: Int
    private(set) var replies: [EngineReply]
    private unowned let client: EngineClient

    init(_ call: EngineCall, _ places: [Int], isAsking: Bool, client: EngineClient) {
        (self.call, self.places, self.isAsking, self.client) = (call, places, isAsking, client)
        missing = places.count
        replies = [EngineReply](repeating: .nothing, count: places.count)
    }

    var writtenBytes: Int { places.reduce(0) { $0 + call.commands[$1].writtenBytes + (isAsking ? 32 : 0) } }

    /// - Parameter index: in `places`.
    func take(_ reply: EngineReply, at index: Int, from node: EngineNode) {
        replies[index] = reply
        missing -= 1
        if missing == 0 { client.settle(self, from: node) }
    }

    /// Nothing of it was sent.
    func fail(_ failure: EngineFailure, at node: EngineNode) {
        missing = 0
        for index in replies.indices { replies[index] = .failed(failure) }
        client.settle(self, from: node)
    }
}

/// Calls of one patience: the first to be made is the first to expire, so one timer does for all.
final class PatienceLine {
    private let loop: EventLoop
    private let milliseconds: Int64
    private let expire: (EngineCall) -> Void
    private var calls: [EngineCall] = []
    private var head = 0
    private var timer: LoopTimer?

    init(loop: EventLoop, milliseconds: Int64, expire: @escaping (EngineCall) -> Void) {
        (self.loop, self.milliseconds, self.expire) = (loop, milliseconds, expire)
    }

    var isEmpty: Bool { head == calls.count }

    func add(_ call: EngineCall) {
        calls.append(call)
        if timer == nil { schedule(after: milliseconds) }
    }

    /// - Parameter end: is given those that are not finished.
    func close(_ end: (EngineCall) -> Void) {
        timer?.cancel()
        let left = calls[head...]
        calls = []
        head = 0
        for call in left where !call.isFinished { end(call) }
    }

    private func schedule(after milliseconds: Int64) {
        timer = loop.schedule(after: .milliseconds(milliseconds)) { [weak self] in self?.fire() }
    }

    private func fire() {
        timer = nil
        let now = loop.time.monotonicMilliseconds
        // Others have their turn.
        var left = 256
        while head < calls.count, left > 0, calls[head].isFinished || calls[head].deadline <= now {
            let call = calls[head]
            head += 1
            guard !call.isFinished else { continue }
            left -= 1
            expire(call)
        }
        if head * 2 >= calls.count {
            calls.removeFirst(head)
            head = 0
        }
        // Whoever was told may have asked again.
        if head < calls.count, timer == nil { schedule(after: calls[head].deadline - now) }
    }
}
