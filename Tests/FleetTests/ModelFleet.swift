// A model of a fleet: nodes, the engine, the origin with the true values, the shared records, and the invariants.

@testable import Fleet

struct ModelFleet: Hashable {
    struct Record: Hashable {
        var version: RecordVersion
        var value: Int
    }

    struct Purge: Hashable {
        var key: Int
        var value: Int
        var node: Int
        var isDurable = false
        var isPending = false
        var isRefused = false
        /// The node ended before it answered.
        var isUnanswered = false
        /// The purge exists nowhere any more: its sender has ended, and a primary was lost with it.
        var isLost = false
    }

    var engine: ModelEngine
    var nodes: [ModelNode]
    /// The origin's value of each key. It changes before it is purged.
    var origin: [Int]
    var shared: [Record?]
    var purges: [Purge] = []
    /// Per entry, the values by key that its sender had written when it sent the entry first.
    var written: [LogOrigin: [Int]] = [:]
    var time: Int64 = 10_000_000
    var names: UInt64 = 0
    /// The first violated invariant; nil if there is none.
    var violation: String?
    var isOutOfMemory = false
    /// State of the last primary that was lost.
    private var lost: ModelEngine.Content?
    /// Limits of each new process.
    var limits = LogFollower.Limits()
    /// Whether events are recorded in `trace`.
    var isTraced = false
    var trace: [String] = []

    init(nodes count: Int, keys: Int, replicas: Int, _ limits: LogFollower.Limits = .init()) {
        engine = ModelEngine(replicas: replicas)
        self.limits = limits
        (origin, shared, nodes) = (Array(repeating: 1, count: keys), Array(repeating: nil, count: keys), [])
        for _ in 0..<count {
            names += 1
            let disk = ModelNode.Disk(copies: Array(repeating: nil, count: keys), obeyed: Array(repeating: 0, count: keys))
            nodes.append(ModelNode(name: names, disk: disk, now: time, limits))
        }
    }

    private mutating func complain(_ what: String) { violation = violation ?? what }

    mutating func note(_ what: @autoclosure () -> String) { if isTraced { trace.append(what()) } }

    // MARK: - Clients

    mutating func beginFetch(_ node: Int, key: Int) {
        nodes[node].fetches.append(.init(key: key, value: origin[key], version: nodes[node].follower.version))
    }

    mutating func endFetch(_ node: Int, _ index: Int) {
        let fetch = nodes[node].fetches.remove(at: index)
        if !fetch.isOvertaken { nodes[node].disk.copies[fetch.key] = fetch.value }
        if let version = fetch.version { shared[fetch.key] = Record(version: version, value: fetch.value) }
        note("   \(node) stores \(fetch.value) of key \(fetch.key) at \(fetch.version.map { $0.position.text } ?? "none")")
    }

    /// Looks up the shared record and stores it if it may be used.
    mutating func take(_ node: Int, key: Int) {
        checkTake(node, key: key)
        if mayTake(node, key: key), let record = shared[key] { nodes[node].disk.copies[key] = record.value }
    }

    mutating func checkTake(_ node: Int, key: Int) {
        guard let record = shared[key], record.value < nodes[node].obeyed(key), mayTake(node, key: key) else { return }
        complain("node \(node) takes value \(record.value) of key \(key), and has obeyed \(nodes[node].obeyed(key))")
    }

    func mayTake(_ node: Int, key: Int) -> Bool {
        guard let record = shared[key], nodes[node].follower.isUpToDate else { return false }
        return nodes[node].refusal(of: record.version, key: key) == nil
    }

    /// Changes the origin's value, then purges the key.
    mutating func purge(_ node: Int, key: Int, kind: LogMessage.Kind = .target) {
        origin[key] += 1
        let message = kind == .all ? LogMessage(.all, argument: [255, 0]) : ModelNode.message(kind, key: key, value: origin[key])
        nodes[node].obey(message, values: origin, isOwn: true)
        nodes[node].writes = zip(nodes[node].writes, origin).enumerated().map {
            $0.offset == key ? max($0.element.0, $0.element.1) : $0.element.0
        }
        purges.append(Purge(key: key, value: origin[key], node: node))
        write(node, .append(message, .purge, token: UInt64(purges.count - 1)))
    }

    mutating func write(_ node: Int, key: Int) {
        origin[key] += 1
        let message = ModelNode.message(.target, key: key)
        nodes[node].obey(message, values: origin, isOwn: true)
        nodes[node].writes[key] = origin[key]
        write(node, .append(message, .write, token: nil))
    }

    // MARK: - Events of nodes

    mutating func connect(_ node: Int) {
        guard nodes[node].primary == nil else { return }
        let info = engine.info()
        let clock = engine.clock
        let former = nodes[node].clock
        nodes[node].primary = engine.primary
        nodes[node].clock = clock
        follow(node, .connected(info, fleetMilliseconds: former.map { UInt64(max(0, time + $0)) }))
        if let former, abs(former - clock) > FleetClock.jumpMilliseconds { follow(node, .clockJumped) }
    }

    mutating func cut(_ node: Int) {
        guard nodes[node].primary != nil else { return }
        nodes[node].primary = nil
        (nodes[node].asked, nodes[node].outgoing, nodes[node].isWaiting, nodes[node].hasToLook) = (nil, nil, false, false)
        follow(node, .lost)
        write(node, .lost)
    }

    /// Runs in its own millisecond. Until a node has read of the flush, it calculates positions of its own entries from the old log. In an
    /// entry's millisecond, a position could be assigned twice.
    mutating func flush() {
        time += 1
        engine.flush()
    }

    /// - Parameter isCrash: whether the machine crashes, so that unflushed data is lost.
    mutating func restart(_ node: Int, isCrash: Bool = true) {
        names += 1
        if !isCrash, nodes[node].follower.isUpToDate { flushAll(node) }
        let disk = isCrash ? nodes[node].diskAfterCrash : nodes[node].disk
        // The client gets no answer and repeats the purge.
        for index in purges.indices where purges[index].node == node && !purges[index].isPending { purges[index].isUnanswered = true }
        nodes[node] = ModelNode(name: names, disk: disk, now: time, limits)
        // Before its position was flushed, this node may have been the only one that knew of a loss.
        if let lost { forget(lost) }
        for (token, kept) in disk.pending.sorted(by: { $0.key < $1.key }) {
            write(node, .append(kept, .keptPurge, token: token))
        }
    }

    mutating func failOver(to replica: Int, clock: Int64) {
        let former = engine.content
        engine.promote(replica, clock: clock)
        lose(former)
    }

    /// All servers of the engine fail and return with an older snapshot.
    mutating func returnWithDump() {
        let former = engine.content
        engine.returnWithDump()
        lose(former)
    }

    /// A purge is lost for good if its sender has ended and no node has persisted a later position.
    private mutating func lose(_ former: ModelEngine.Content) {
        lost = former
        forget(former)
        for node in nodes.indices { cut(node) }
    }

    private mutating func forget(_ former: ModelEngine.Content) {
        let left = Set(engine.content.entries.compactMap(\.entry.origin))
        let alive = Set(nodes.map(\.follower.node))
        for positioned in former.entries {
            guard let origin = positioned.entry.origin, !left.contains(origin), !alive.contains(origin.node) else { continue }
            let isKnown = nodes.contains { node in
                node.disk.kept.map { $0.epoch == former.epoch && $0.position >= positioned.position } ?? false
            }
            for index in purges.indices where !isKnown && positioned.entry.message.argument == Self.argument(of: purges[index]) {
                purges[index].isLost = true
            }
        }
    }

    private static func argument(of purge: Purge) -> [UInt8] { [UInt8(purge.key), UInt8(truncatingIfNeeded: purge.value)] }

    /// Trims the log. Entries are trimmed by age, so a node in sync has read them: otherwise it would have been silent for too long. Nodes
    /// that are behind or disconnected may be passed.
    mutating func trim(keeping count: Int) {
        let read = nodes.filter(\.follower.isUpToDate).map(\.follower.position).min()
        engine.trim(keeping: count, after: read ?? engine.content.last)
    }

    // MARK: - Messages

    /// Delivers the entries that the node requested.
    mutating func read(_ node: Int, atMost count: Int = .max) {
        guard let asked = nodes[node].asked, nodes[node].primary != nil else { return }
        nodes[node].asked = nil
        let entries = engine.read(after: asked)
        if entries.isEmpty {
            follow(node, .nothingNew)
        } else {
            follow(node, .entries(Array(entries.prefix(count))))
        }
        follow(node, .epoch(engine.content.epoch))
        readInfo(node)
        if entries.count <= count { checkSeeing(node) }
    }

    private mutating func readInfo(_ node: Int) {
        guard nodes[node].hasToLook, nodes[node].primary != nil else { return }
        nodes[node].hasToLook = false
        follow(node, .infoRead(engine.info()))
    }

    func hasToRead(_ node: Int) -> Bool {
        guard let asked = nodes[node].asked, nodes[node].primary != nil else { return false }
        return engine.content.last > asked || !nodes[node].follower.isUpToDate
    }

    /// Delivers the writer's entries to the engine. The reply is delivered or lost.
    mutating func deliver(_ node: Int, answerIsLost: Bool = false) {
        guard nodes[node].primary != nil else { return }
        if let outgoing = nodes[node].outgoing {
            nodes[node].outgoing = nil
            let replies = outgoing.map { isOutOfMemory ? .refused : engine.append($0, time: time) }
            nodes[node].written = engine.content.version
            if answerIsLost { return cut(node) }
            write(node, .answered(replies))
            for reply in replies { if case .appended(let position) = reply { follow(node, .appended(position)) } }
            if replies.contains(.refused) { follow(node, .refused) }
        } else if nodes[node].isWaiting {
            nodes[node].isWaiting = false
            if answerIsLost { cut(node) } else { write(node, .waited(replicas: engine.waited(for: nodes[node].written))) }
        }
    }

    mutating func report(_ node: Int) {
        guard let report = nodes[node].report else { return }
        nodes[node].report = nil
        nodes[node].applied = report
        follow(node, .applied(report: report))
    }

    /// Writes the position to the disk.
    mutating func keep(_ node: Int) {
        guard let kept = nodes[node].keeping else { return }
        nodes[node].flush()
        follow(node, .kept(kept))
    }

    /// A process that is stopped persists its applied position.
    private mutating func flushAll(_ node: Int) {
        if let last = nodes[node].follower.lastToKeep(now: time) { nodes[node].keep(last) }
        keep(node)
    }

    mutating func pass(_ milliseconds: Int64) {
        time += milliseconds
        for node in nodes.indices {
            follow(node, .tick)
            if let tick = nodes[node].writer.nextTick, tick <= time { write(node, .tick) }
        }
    }

    // MARK: - The shell

    private mutating func follow(_ node: Int, _ event: LogFollower.Event) {
        note("   \(node) <- \(event)")
        for action in nodes[node].follower.handle(event, now: time) {
            note("   \(node) follower: \(action)")
            switch action {
            case .readFrom(let position): nodes[node].asked = position
            case .readInfo: nodes[node].hasToLook = true
            case .apply(let positioned):
                nodes[node].obey(positioned.entry.message, values: values(of: positioned.entry))
                note(node, positioned)
            case .note(let positioned): note(node, positioned)
            case .startAnew(let epoch, let floor): nodes[node].table.startAnew(epoch: epoch, floor: floor)
            case .raiseFloor(let position): nodes[node].table.raiseFloor(to: position)
            case .doubt(let after, let before): nodes[node].table.doubt(after: after, before: before)
            case .gap(let gap):
                nodes[node].gaps.append(gap)
                nodes[node].dropAll()
            case .report(let number):
                nodes[node].report = number
                nodes[node].heardBefore[number] = nodes[node].heard
            case .keep(let kept):
                nodes[node].keep(kept)
            case .mayAppend(let fence, let isNewPrimary):
                nodes[node].written = 0
                write(node, .connected(isNewPrimary: isNewPrimary, fence: fence, replicas: engine.replicas.count))
            case .append(let fence): write(node, .fence(fence))
            case .renewEpoch: engine.renewEpoch()
            case .sendHello: write(node, .sendHello)
            case .upToDate, .disconnected: break
            case .reconnect:
                cut(node)
                connect(node)
            }
        }
    }

    private mutating func note(_ node: Int, _ positioned: PositionedEntry) {
        if let mark = ModelNode.marks(positioned.entry.message) { nodes[node].table.note(mark, at: positioned.position) }
    }

    private func values(of entry: LogEntry) -> [Int] { entry.origin.flatMap { written[$0] } ?? origin.map { _ in 0 } }

    private mutating func write(_ node: Int, _ event: LogWriter.Event) {
        for action in nodes[node].writer.handle(event, now: time) {
            note("   \(node) writer: \(action)")
            switch action {
            case .send(let outgoing):
                nodes[node].outgoing = outgoing
                for one in outgoing { learn(node, one.entry) }
            case .wait: nodes[node].isWaiting = true
            case .hold(let message): if let mark = ModelNode.marks(message) { nodes[node].table.hold(mark) }
            case .settle(let message, let position): if let mark = ModelNode.marks(message) { nodes[node].table.settle(mark, at: position) }
            case .keepPending(let token, let message): nodes[node].disk.pending[token] = message
            case .dropPending(let token): nodes[node].disk.pending[token] = nil
            case .report(let token, .durable):
                purges[Int(token)].isDurable = true
                answered(node, purges[Int(token)])
            case .report(let token, .pending):
                purges[Int(token)].isPending = true
                answered(node, purges[Int(token)])
            case .report(let token, .refused): purges[Int(token)].isRefused = true
            case .report: break
            }
        }
    }

    private mutating func answered(_ node: Int, _ purge: Purge) {
        nodes[node].disk.obeyed[purge.key] = max(nodes[node].disk.obeyed[purge.key], purge.value)
        // A node persists a purge before it answers.
        for key in nodes[node].disk.flushed.indices { nodes[node].disk.flushed[key] = nodes[node].disk.copies[key] }
    }

    /// Records the values of an entry: those of its purge, or all that its sender has written by now.
    private mutating func learn(_ node: Int, _ entry: LogEntry) {
        guard let origin = entry.origin, written[origin] == nil else { return }
        var values = nodes[node].writes
        if entry.message.argument.count == 2, entry.message.argument[1] > 0 {
            values[Int(entry.message.argument[0])] = Int(entry.message.argument[1])
        }
        written[origin] = values
    }

    // MARK: - Invariants

    /// Checks that a node in sync has applied all entries of the log.
    private mutating func checkSeeing(_ node: Int) {
        guard nodes[node].follower.isUpToDate else { return }
        for positioned in engine.content.entries {
            guard let origin = positioned.entry.origin, let values = written[origin] else { continue }
            for (key, copy) in nodes[node].disk.copies.enumerated() {
                guard let copy, copy < values[key],
                    positioned.entry.message.kind == .all || positioned.entry.message.argument.first == UInt8(key),
                    nodes[node].obeyed(key) < values[key]
                else { continue }
                complain(
                    "node \(node) sees, and has value \(copy) of key \(key) although \(positioned.position.text) speaks of \(values[key])")
            }
        }
    }

    private mutating func settle(_ node: Int) {
        connect(node)
        for _ in 0..<3 {
            read(node)
            deliver(node)
            for replica in engine.replicas.indices where engine.replicas[replica].version != engine.content.version {
                engine.replicate(to: replica)
            }
            deliver(node)
            report(node)
            keep(node)
        }
    }

    /// Completes everything that is pending. Then checks that all nodes, and a new one, have applied all answered purges.
    mutating func checkEnd() {
        isOutOfMemory = false
        var quietRounds = 0
        for _ in 0..<60 where quietRounds < 3 {
            let before = engine.content.version
            for node in nodes.indices { settle(node) }
            pass(1_200)
            let isQuiet = nodes.allSatisfy { $0.follower.isUpToDate && $0.writer.pendingPurges == 0 } && engine.content.version == before
            quietRounds = isQuiet ? quietRounds + 1 : 0
        }
        for node in nodes.indices where !nodes[node].follower.isUpToDate { complain("node \(node) does not see at the end") }
        for (index, purge) in purges.enumerated() where !purge.isDurable && !purge.isRefused && !purge.isUnanswered {
            if !engine.replicas.isEmpty { complain("purge \(index) is not durable at the end") }
        }
        checkObeyed()
        let disk = ModelNode.Disk(copies: origin.map { _ in nil }, obeyed: origin.map { _ in 0 })
        names += 1
        nodes.append(ModelNode(name: names, disk: disk, now: time))
        connect(nodes.count - 1)
        for _ in 0..<4 { read(nodes.count - 1) }
        pass(2_500)
        checkObeyed()
        nodes.removeLast()
    }

    private mutating func checkObeyed() {
        for purge in purges where purge.isDurable && !purge.isLost {
            for node in nodes.indices {
                if let copy = nodes[node].disk.copies[purge.key], copy < purge.value {
                    complain("node \(node) still has value \(copy) of key \(purge.key) after \(purge.value) was purged")
                }
                if let record = shared[purge.key], record.value < purge.value, mayTake(node, key: purge.key) {
                    complain("node \(node) would take value \(record.value) of key \(purge.key) after \(purge.value) was purged")
                }
            }
        }
    }
}
