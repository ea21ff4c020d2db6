// What a caller waits for: commands of one slot, sent in one go, and their replies.

import Reactor

/// Belongs to one loop. Its commands are sent in attempts, one at a time: first all of them, then those that another server has, or that have to wait.
final class EngineCall: ReplyReceiver {
    private(set) var commands: EngineCommands
    /// nil: any server will do.
    let slot: Int?
    /// Where only this one will do: what the client asks for itself.
    let pinned: EngineServer?
    let deadline: Int64
    /// Somebody waits for the replies.
    let isUrgent: Bool
    /// Those of commands that are `open` count for nothing.
    private(set) var replies: [EngineReply]
    /// The places of commands that have no reply that counts, in the order in which they are sent.
    private(set) var open: ArraySlice<Int>
    var redirections = 0
    /// Patience is over; replies that come yet are for `late`.
    private(set) var isExpired = false
    /// Nobody waits for anything any more.
    private(set) var isFinished = false
    /// Commands are on their way, or wait for a connection.
    private(set) var isUnderWay = false
    /// The server is told each time that it has the slot not yet for good.
    private(set) var isAsking = false
    /// By whom, and when it was sent last; nil where it was not.
    private var node: EngineNode?
    private(set) var sent: Int64?
    /// Replies that are to come yet of this attempt.
    private var missing = 0
    /// Where it waits, and with which number.
    private var line: PatienceLine<EngineCall>?
    private var number = 0
    private var then: (([EngineReply]) -> Void)?
    private var late: (([EngineReply]) -> Void)?

    init(
        _ commands: EngineCommands, deadline: Int64, isUrgent: Bool = true, pinned: EngineServer? = nil,
        late: (([EngineReply]) -> Void)? = nil, then: @escaping ([EngineReply]) -> Void
    ) {
        self.commands = commands
        self.deadline = deadline
        self.isUrgent = isUrgent
        self.pinned = pinned
        self.late = late
        self.then = then
        slot = commands.places.first { $0.slot != nil }?.slot
        replies = []
        replies.reserveCapacity(commands.count)
        for _ in 0..<commands.count { replies.append(.failed(.timedOut)) }
        open = commands.count <= Self.fewPlaces.count ? Self.fewPlaces[..<commands.count] : Array(0..<commands.count)[...]
    }

    /// Nearly all calls have so few commands that these are all of their places: nothing is made for them.
    private static let fewPlaces = Array(0..<8)

    /// From now on patience is over after a while.
    func wait(in line: PatienceLine<EngineCall>, since now: Int64) {
        number = line.add(self, at: now)
        self.line = line
    }

    // MARK: An attempt

    /// All that is open goes to one server.
    func begin(isAsking: Bool) {
        (self.isAsking, isUnderWay, sent) = (isAsking, true, nil)
    }

    /// Of all commands, where all are open and the engine keeps none of their replies back.
    var placesInOnePiece: Range<Int>? { open.count == commands.count && !commands.areHeld ? 0..<commands.count : nil }

    /// How many bytes it takes at most.
    var writtenBytes: Int { commands.bytes.count + (isAsking ? 32 * open.count : 0) }

    /// It is on its way.
    func noteSent(by node: EngineNode, at now: Int64) {
        (self.node, sent, missing) = (node, now, open.count)
    }

    func take(_ reply: EngineReply, at place: Int) {
        guard let node, !isFinished else { return }
        replies[place] = reply
        missing -= 1
        node.noteReply(reply, to: self)
        if missing == 0 { node.settle(self) }
    }

    /// Nothing of it was sent.
    func fail(_ failure: EngineFailure, at node: EngineNode) {
        for place in open { replies[place] = .failed(failure) }
        node.settle(self)
    }

    /// The attempt is over.
    /// - Parameter again: what is still open.
    func settle(leaving again: [Int]) { (open, isUnderWay) = (again[...], false) }

    // MARK: The end

    func put(_ reply: EngineReply, at place: Int) { replies[place] = reply }

    /// All that have no reply get this one.
    func fill(_ failure: EngineFailure) {
        for place in open { replies[place] = .failed(failure) }
        open = []
    }

    /// All replies are known, or why there are none.
    func finish() {
        guard !isFinished else { return }
        isFinished = true
        let (result, then, late) = (replies, then, late)
        letGo()
        if let then { then(result) } else { late?(result) }
    }

    /// What was replied so far goes to the caller; the rest is late.
    func expire() {
        guard !isExpired, !isFinished else { return }
        isExpired = true
        if isUnderWay, let sent { node?.noteTimeOut(sent: sent) }
        var result = replies
        for place in open { result[place] = .failed(.timedOut) }
        let then = then
        self.then = nil
        if !isUnderWay {
            isFinished = true
            letGo()
        }
        then?(result)
    }

    /// What it holds may be large, and somebody may hold it.
    private func letGo() {
        isUnderWay = false
        line?.leave(number)
        line = nil
        (commands, replies, open) = (EngineCommands(), [], [])
        (node, then, late) = (nil, nil, nil)
    }
}
