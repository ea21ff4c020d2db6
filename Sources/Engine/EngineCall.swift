// One caller's commands of one slot, and their replies.

import Reactor

/// Belongs to one loop. Commands are sent in attempts: first all of them, then those that were redirected or must be retried.
final class EngineCall: ReplyReceiver {
    private(set) var commands: EngineCommands
    let slot: Int?
    /// The only server that may be used, for the client's own commands; nil for others.
    let pinned: EngineServer?
    let deadline: Int64
    /// Whether a request waits for the replies.
    let isUrgent: Bool
    /// Replies so far. Those with indexes in `open` are not valid yet.
    private(set) var replies: [EngineReply]
    /// Indexes of commands without a valid reply, in order.
    private(set) var open: ArraySlice<Int>
    var redirections = 0
    /// True after the timeout; further replies are passed to `late`.
    private(set) var isExpired = false
    private(set) var isFinished = false
    private(set) var isUnderWay = false
    /// Whether ASKING is sent before each command.
    private(set) var isAsking = false
    /// Server and time of the last attempt; nil if nothing was sent.
    private var node: EngineNode?
    private(set) var sent: Int64?
    private var missing = 0
    /// The call's timeout queue, and its number there.
    private var line: PatienceLine<EngineCall>?
    private var number = 0
    private var then: (([EngineReply]) -> Void)?
    private var late: (([EngineReply]) -> Void)?

    init(
        _ commands: EngineCommands, deadline: Int64, isUrgent: Bool = true, pinned: EngineServer? = nil,
        late: (([EngineReply]) -> Void)? = nil, then: @escaping ([EngineReply]) -> Void
    ) {
        (self.commands, self.deadline, self.isUrgent, self.pinned) = (commands, deadline, isUrgent, pinned)
        (self.late, self.then) = (late, then)
        slot = commands.entries.first { $0.slot != nil }?.slot
        replies = []
        replies.reserveCapacity(commands.count)
        for _ in 0..<commands.count { replies.append(.failed(.timedOut)) }
        open = commands.count <= Self.fewIndexes.count ? Self.fewIndexes[..<commands.count] : Array(0..<commands.count)[...]
    }

    private static let fewIndexes = Array(0..<8)

    func wait(in line: PatienceLine<EngineCall>, since now: Int64) {
        number = line.add(self, at: now)
        self.line = line
    }

    func begin(isAsking: Bool) {
        (self.isAsking, isUnderWay, sent) = (isAsking, true, nil)
    }

    /// Range of all commands, if all are open and none blocks; nil otherwise.
    var contiguousIndexes: Range<Int>? { open.count == commands.count && !commands.areHeld ? 0..<commands.count : nil }

    /// Maximum size of the output, in bytes.
    var writtenBytes: Int { commands.bytes.count + (isAsking ? 32 * open.count : 0) }

    func noteSent(by node: EngineNode, at now: Int64) {
        (self.node, sent, missing) = (node, now, open.count)
    }

    func take(_ reply: EngineReply, at index: Int) {
        guard let node, !isFinished else { return }
        replies[index] = reply
        missing -= 1
        node.noteReply(reply, to: self)
        if missing == 0 { node.settle(self) }
    }

    func fail(_ failure: EngineFailure, at node: EngineNode) {
        for index in open { replies[index] = .failed(failure) }
        node.settle(self)
    }

    /// - Parameter again: indexes that remain open.
    func settle(leaving again: [Int]) { (open, isUnderWay) = (again[...], false) }

    func put(_ reply: EngineReply, at index: Int) { replies[index] = reply }

    func fill(_ failure: EngineFailure) {
        for index in open { replies[index] = .failed(failure) }
        open = []
    }

    func finish() {
        guard !isFinished else { return }
        isFinished = true
        let (result, then, late) = (replies, then, late)
        releaseContent()
        if let then { then(result) } else { late?(result) }
    }

    /// Handles the timeout: passes the replies so far to the caller. Later replies are passed to `late`.
    func expire() {
        guard !isExpired, !isFinished else { return }
        isExpired = true
        if isUnderWay, let sent { node?.noteTimeOut(sent: sent) }
        var result = replies
        for index in open { result[index] = .failed(.timedOut) }
        let then = then
        self.then = nil
        if !isUnderWay {
            isFinished = true
            releaseContent()
        }
        then?(result)
    }

    /// Releases the commands, because they may be large and the call may be referenced elsewhere.
    private func releaseContent() {
        isUnderWay = false
        line?.leave(number)
        line = nil
        (commands, replies, open) = (EngineCommands(), [], [])
        (node, then, late) = (nil, nil, nil)
    }
}
