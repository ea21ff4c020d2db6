// The writer's queue: merges, limits and reports messages until they are sent.

extension LogWriter {
    mutating func appendWrite(_ message: LogMessage, _ token: Token?, _ now: Int64) -> [Action] {
        let isCovered = unsentWrites[.everythingStale] != nil || message.argument.count > limits.argumentBytes
        let covering = isCovered ? .everythingStale : message
        var actions: [Action] = []
        if unsentWrites[covering] == nil {
            guard unsentWrites.count < limits.writes else { return markEverythingStale(token, now) }
            unsentWrites[covering] = []
            queue.append(Item(message: covering, since: now))
            actions.append(.hold(covering))
        }
        guard let token else { return actions }
        // While the engine is unavailable or refuses writes, no response waits.
        if phase == .disconnected || pausedUntil > .min || unsentWrites[covering, default: []].count >= limits.waiters {
            actions.append(.report(token, .later))
        } else {
            unsentWrites[covering, default: []].append(token)
        }
        return actions
    }

    private mutating func markEverythingStale(_ token: Token?, _ now: Int64) -> [Action] {
        var actions: [Action] = [.hold(.everythingStale)]
        queue.removeAll { item in
            guard !item.isPurge, !item.isKept, item.sequence == nil, let tokens = unsentWrites[item.message] else { return false }
            actions.append(.settle(item.message, at: nil))
            actions += tokens.map { .report($0, .later) }
            return true
        }
        unsentWrites = [.everythingStale: []]
        queue.append(Item(message: .everythingStale, since: now))
        if let token { actions.append(.report(token, .later)) }
        return actions
    }

    /// Queues a write that an earlier process could not append.
    mutating func appendKeptWrite(_ message: LogMessage, _ token: Token?, _ now: Int64) -> [Action] {
        queue.append(Item(message: message, isKept: true, tokens: token.map { [$0] } ?? [], since: now))
        return [.hold(message)]
    }

    mutating func appendPurge(_ message: LogMessage, _ token: Token?, isKept: Bool, _ now: Int64) -> [Action] {
        if !isKept, !hasCapacity(for: message) { return token.map { [.report($0, .refused)] } ?? [] }
        let message = message.argument.count > limits.argumentBytes ? LogMessage(.all, isSoft: message.isSoft) : message
        var item = Item(message: message, isPurge: true, isKept: isKept, tokens: token.map { [$0] } ?? [], since: now)
        var actions: [Action] = [.hold(message)]
        if phase == .disconnected { actions += Self.reportOnce(&item, .notReached) }
        // The engine has just refused the entries that precede this one.
        if phase != .disconnected, now < pausedUntil { actions += Self.reportOnce(&item, .refused) }
        queue.append(item)
        pending.add(item)
        return actions
    }

    private func hasCapacity(for message: LogMessage) -> Bool {
        pending.count < limits.purges && pending.bytes + message.argument.count <= limits.purgeBytes
    }

    /// Reports a purge as pending once, after it is stored. Static, because calling a method during a change of an item would copy the
    /// writer.
    static func reportOnce(_ item: inout Item, _ cause: Pending) -> [Action] {
        guard item.isPurge, !item.isKept else { return [] }
        item.isKept = true
        return item.tokens.flatMap { [.keepPending($0, item.message), .report($0, .pending(cause))] }
    }

    mutating func reportUnreplicated() -> [Action] { unreplicated.indices.flatMap { Self.reportOnce(&unreplicated[$0], .notReplicated) } }

    /// Reports purges that have not reached the log in time.
    mutating func reportPending(_ now: Int64) -> [Action] {
        var actions: [Action] = []
        let cause = pausedUntil > .min ? Pending.refused : .notReached
        for index in queue.indices where queue[index].isPurge && now - queue[index].since >= limits.patience {
            actions += Self.reportOnce(&queue[index], cause)
        }
        if case .sending(var items) = phase {
            for index in items.indices where now - items[index].since >= limits.patience {
                actions += Self.reportOnce(&items[index], .notReached)
            }
            phase = .sending(items)
        }
        return actions
    }

    /// Causes of pending purges that are not in the log. All others are `notReplicated`.
    public var unreachedCauses: [Token: Pending] {
        var causes: [Token: Pending] = [:]
        guard unreachedPurges > 0 else { return causes }
        causes.reserveCapacity(unreachedPurges)
        func add(_ items: [Item], _ cause: Pending) {
            for item in items where item.isPurge { for token in item.tokens { causes[token] = cause } }
        }
        add(queue, phase != .disconnected && pausedUntil > .min ? .refused : .notReached)
        if case .sending(let items) = phase { add(items, .notReached) }
        return causes
    }

    /// Handles the loss of the connection; responses no longer wait.
    mutating func disconnect(_ now: Int64) -> [Action] {
        takeBack()
        if phase != .disconnected { lostAt = lostAt ?? now }
        phase = .disconnected
        var actions: [Action] = []
        for index in queue.indices {
            actions += Self.reportOnce(&queue[index], .notReached)
            guard !queue[index].isPurge, !queue[index].isKept else { continue }
            actions += queue[index].tokens.map { .report($0, .later) }
            queue[index].tokens = []
        }
        for (message, tokens) in unsentWrites where !tokens.isEmpty {
            actions += tokens.map { .report($0, .later) }
            unsentWrites[message] = []
        }
        return actions + reportUnreplicated()
    }

    /// Writes that are not in the log, for the next process. Read after the `lost` event.
    public var writesToKeep: [LogMessage] {
        var (writes, seen, bytes): ([LogMessage], Set<LogMessage>, Int) = ([], [], 0)
        for item in queue where !item.isPurge && !item.isKept && item.message.kind != .hello && seen.insert(item.message).inserted {
            writes.append(item.message)
            bytes += item.message.argument.count
        }
        return writes.count > limits.keptWrites || bytes > limits.keptWriteBytes ? [.everythingStale] : writes
    }

    private mutating func takeBack() {
        if case .sending(let items) = phase { queue.insert(contentsOf: items, at: 0) }
        if case .sendingFence(let fence) = phase { fences.insert(fence, at: 0) }
    }

    mutating func add(_ fence: Outgoing) {
        fences.append(fence)
        if fences.count > limits.fences { fences.removeFirst() }
    }
}
