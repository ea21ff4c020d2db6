// Decides the order in which entries are sent, and handles the replies.

extension LogWriter {
    mutating func connect(isNewPrimary: Bool, fence: Fence?, replicas: Int, _ now: Int64) -> [Action] {
        var actions = disconnect(now)
        self.replicas = max(0, replicas)
        (phase, hasAppended, pausedUntil, pause, waitsAgainAt) = (.idle, false, .min, limits.firstPause, nil)
        if let fence { add(Outgoing(entry: fence.entry, position: fence.position)) }
        if isNewPrimary, lastSequence > 0 { actions += repeatLastMinute(now) }
        if isNewPrimary ? lastSequence > 0 : !unreplicated.isEmpty { sendHello(now) }
        lostAt = nil
        return actions
    }

    /// Sends a greeting. It shows the node's last sequence number, and gives a `WAIT` for earlier entries something to cover.
    mutating func sendHello(_ now: Int64) {
        guard !queue.contains(where: { $0.message.kind == .hello && $0.sequence == nil }) else { return }
        queue.append(Item(message: LogMessage(.hello), since: now))
    }

    /// Sends recent entries again, because the new primary may lack the last entries of the former one.
    private mutating func repeatLastMinute(_ now: Int64) -> [Action] {
        let since = (lostAt ?? now) - limits.sentAgain
        var items = unreplicated + queue.filter { $0.sequence != nil }
        unreplicated = []
        var sent = Set(items.compactMap(\.sequence))
        for entry in remembered where entry.time >= since && sent.insert(entry.sequence).inserted {
            items.append(Item(message: entry.message, sequence: entry.sequence, since: now, isSettled: true, isHeld: false))
        }
        items.sort { ($0.sequence ?? 0) < ($1.sequence ?? 0) }
        // The marks of another log do not include these entries.
        let again = items.filter { !$0.isHeld && $0.message.kind != .hello }.map { Action.hold($0.message) }
        for index in items.indices { items[index].isHeld = true }
        queue = items + queue.filter { $0.sequence == nil }
        guard let forgotten, forgotten >= since, unsentWrites[.everythingStale] == nil else { return again }
        unsentWrites[.everythingStale] = []
        queue.append(Item(message: .everythingStale, since: now))
        return again + [.hold(.everythingStale)]
    }

    mutating func proceed(_ now: Int64) -> [Action] {
        guard phase == .idle else { return [] }
        if let waitsAgainAt, now >= waitsAgainAt, hasAppended, !unreplicated.isEmpty {
            self.waitsAgainAt = nil
            phase = .waiting
            return [.wait]
        }
        guard now >= pausedUntil else { return [] }
        if !fences.isEmpty {
            let fence = fences.removeFirst()
            phase = .sendingFence(fence)
            return [.send([fence])]
        }
        let items = nextBatch(now)
        guard !items.isEmpty else { return [] }
        phase = .sending(items)
        return [
            .send(
                items.map { item in
                    Outgoing(entry: LogEntry(item.message, origin: LogOrigin(node: node, sequence: item.sequence ?? 0)), position: nil)
                })
        ]
    }

    /// Removes due items from the queue. Repeated writes to one target are delayed, so that they are merged.
    private mutating func nextBatch(_ now: Int64) -> [Item] {
        var batch: [Item] = []
        var left: [Item] = []
        var (examined, bytes) = (0, 0)
        for item in queue.prefix(limits.examinedItems) {
            bytes += item.message.argument.count
            guard batch.count < limits.batch, batch.isEmpty || bytes <= limits.batchBytes else { break }
            examined += 1
            if isMerging(item, now) { left.append(item) } else { batch.append(ready(item, now)) }
        }
        queue.replaceSubrange(..<examined, with: left)
        return batch
    }

    private mutating func ready(_ item: Item, _ now: Int64) -> Item {
        guard item.sequence == nil else { return item }
        var item = item
        lastSequence += 1
        item.sequence = lastSequence
        guard !item.isPurge, !item.isKept, item.message.kind != .hello else { return item }
        item.tokens = unsentWrites.removeValue(forKey: item.message) ?? []
        // One client may write often, to different targets. Its responses are not delayed.
        guard item.message.kind != .identities else { return item }
        if recentWrites.count >= limits.writes { recentWrites = recentWrites.filter { now - $0.value < limits.mergeWindow } }
        if recentWrites.count < limits.writes { recentWrites[item.message] = now }
        return item
    }

    private func isMerging(_ item: Item, _ now: Int64) -> Bool {
        guard item.sequence == nil, !item.isPurge, !item.isKept, let last = recentWrites[item.message] else { return false }
        return now - last < limits.mergeWindow
    }

    /// Time when `tick` is due; nil if no tick is needed before another event.
    public var nextTick: Int64? {
        // A disconnected writer has already reported all purges.
        var next = phase == .disconnected ? nil : queue.lazy.filter { !$0.isKept && $0.isPurge }.map { $0.since + limits.patience }.min()
        if case .sending(let items) = phase {
            next = least(next, items.lazy.filter { !$0.isKept && $0.isPurge }.map { $0.since + limits.patience }.min())
        }
        guard phase == .idle else { return next }
        next = least(next, waitsAgainAt)
        guard !queue.isEmpty || !fences.isEmpty else { return next }
        if pausedUntil > .min { return least(next, pausedUntil) }
        return least(next, queue.prefix(limits.examinedItems).compactMap { recentWrites[$0.message].map { $0 + limits.mergeWindow } }.min())
    }

    private func least(_ one: Int64?, _ other: Int64?) -> Int64? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }
}

extension LogWriter {
    mutating func answer(_ replies: [Reply], _ now: Int64) -> [Action] {
        switch phase {
        case .sendingFence(let fence):
            phase = .idle
            if replies == [.refused] || replies.count != 1 {
                fences.insert(fence, at: 0)
                pauseSending(now)
            }
            return []
        case .sending(let items):
            phase = .idle
            var actions: [Action] = []
            var refused: [Item] = []
            for (index, item) in items.enumerated() {
                if index < replies.count, case .appended(let position) = replies[index] {
                    actions += appended(item, at: position, now)
                } else {
                    refused.append(item)
                }
            }
            for index in refused.indices {
                actions += Self.reportOnce(&refused[index], .refused)
                guard !refused[index].isPurge, !refused[index].isKept else { continue }
                actions += refused[index].tokens.map { .report($0, .later) }
                refused[index].tokens = []
            }
            queue.insert(contentsOf: refused, at: 0)
            if refused.isEmpty { (pause, pausedUntil) = (limits.firstPause, .min) } else { pauseSending(now) }
            return actions + (items.contains(where: \.isPurge) || waitsAgainAt == nil ? askReplicas(now) : [])
        case .disconnected, .idle, .waiting: return []
        }
    }

    private mutating func pauseSending(_ now: Int64) {
        pausedUntil = now + pause
        pause = min(pause * 2, limits.longestPause)
    }

    private mutating func askReplicas(_ now: Int64) -> [Action] {
        guard hasAppended, !unreplicated.isEmpty else { return [] }
        guard replicas > 0 else { return waitAgain(now) }
        phase = .waiting
        return [.wait]
    }

    private mutating func appended(_ item: Item, at position: LogPosition, _ now: Int64) -> [Action] {
        hasAppended = true
        guard let sequence = item.sequence else { return [] }
        // A lost greeting would leave a gap in the sequence.
        remember(Remembered(message: item.message, sequence: sequence, time: now))
        guard item.message.kind != .hello else { return [] }
        var item = item
        let (wasSettled, wasHeld) = (item.isSettled, item.isHeld)
        (item.isSettled, item.isHeld) = (true, false)
        if item.isPurge, replicas > 0 { unreplicated.append(item) }
        // No response waits for a write of an earlier process.
        if !item.isPurge, item.isKept { return [.settle(item.message, at: position)] + item.tokens.map { .dropPending($0) } }
        return (wasHeld ? [.settle(item.message, at: position)] : [])
            + (wasSettled ? [] : item.tokens.map { .report($0, .appended(position)) })
            + (item.isPurge && replicas == 0 ? finish(item, .noReplica) : [])
    }

    private mutating func finish(_ item: Item, _ outcome: Outcome) -> [Action] {
        pending.remove(item)
        return item.tokens.flatMap { (item.isKept ? [.dropPending($0)] : []) + [.report($0, outcome)] }
    }

    private mutating func remember(_ entry: Remembered) {
        remembered.append(entry)
        guard remembered.count > limits.remembered else { return }
        // Several are removed at a time, so that it happens rarely.
        let some = remembered.prefix(limits.remembered / 4)
        forgotten = some.last?.time ?? forgotten
        remembered.removeFirst(some.count)
    }

    mutating func wait(_ replicas: Int, _ now: Int64) -> [Action] {
        guard phase == .waiting else { return [] }
        phase = .idle
        guard replicas > 0 else { return waitAgain(now) }
        self.replicas = max(self.replicas, replicas)
        (waitsAgainAt, pause) = (nil, limits.firstPause)
        defer { unreplicated = [] }
        return unreplicated.flatMap { finish($0, .durable) }
    }

    /// Repeats `WAIT` after a growing pause, because no replica has the entries.
    private mutating func waitAgain(_ now: Int64) -> [Action] {
        let actions = reportUnreplicated()
        if (waitsAgainAt ?? .min) <= now {
            waitsAgainAt = now + pause
            pause = min(pause * 2, limits.longestPause)
        }
        return actions
    }
}
