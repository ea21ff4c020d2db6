// Routes commands to servers, and handles redirections.

import Reactor

extension EngineClient {
    private static let tryAgainMilliseconds: Int64 = 2
    /// Delay in milliseconds of retries for longer conditions: loading, missing slots, a former primary.
    private static let laterMilliseconds: Int64 = 50

    func route(_ call: EngineCall) {
        if let server = call.pinned { return send(call, to: server) }
        guard map != nil else { return hold(call) }
        if let slot = call.slot {
            guard let index = map?.ownerIndex(of: slot) else { return waitForMap(call) }
            return send(call, to: primaryNode(index))
        }
        guard let server = anyServer() else { return waitForMap(call) }
        send(call, to: server)
    }

    private func waitForMap(_ call: EngineCall) {
        lookUpMap()
        sendLater(call, Self.laterMilliseconds, .clusterDown)
    }

    private func send(_ call: EngineCall, to server: EngineServer, isAsking: Bool = false) {
        send(call, to: node(server), isAsking: isAsking)
    }

    /// - Parameter node: nil if there are too many servers.
    private func send(_ call: EngineCall, to node: EngineNode?, isAsking: Bool = false) {
        guard let node else { return finish(call, with: .queueFull) }
        call.begin(isAsking: isAsking)
        node.take(call)
    }

    private func hold(_ call: EngineCall) {
        guard held.count < limits.commandsWaiting else { return finish(call, with: .queueFull) }
        held.append(call)
        lookUpMap()
    }

    /// Retries after a delay. Fails at once if the timeout would expire first.
    private func sendLater(_ call: EngineCall, _ delay: Int64, _ failure: EngineFailure) {
        let isInTime = loop.time.monotonicMilliseconds + delay < call.deadline
        guard isInTime, !call.isExpired, waitingCount < limits.commandsWaiting else { return finish(call, with: failure) }
        waitingCount += 1
        loop.schedule(after: .milliseconds(delay)) { [self] in
            waitingCount -= 1
            guard !call.isFinished, !call.isExpired, !isClosed else { return }
            route(call)
        }
    }

    /// Handles the replies of an attempt, once all have arrived.
    func settle(_ call: EngineCall, from node: EngineNode) {
        guard !call.isFinished else { return }
        var next = NextStep.none
        var again: [Int] = []
        for index in call.open {
            // A callback may have closed the client.
            guard !call.isFinished else { return }
            // A command without a key goes to the server of the preceding command.
            if call.commands.entries[index].slot == nil, !again.isEmpty {
                again.append(index)
                continue
            }
            let step = call.pinned == nil ? judge(call.replies[index], from: node) : judgePinned(call.replies[index], from: node)
            switch step {
            case .none: break
            case .fail(let failure): call.put(.failed(failure), at: index)
            case .server, .later:
                again.append(index)
                next = step
            }
        }
        guard !call.isFinished else { return }
        call.settle(leaving: again)
        guard !again.isEmpty else { return finish(call) }
        guard !call.isExpired, call.redirections < limits.redirections else {
            return finish(call, with: call.isExpired ? .timedOut : next.failure)
        }
        call.redirections += 1
        counted.figures.repetitions += UInt64(again.count)
        switch next {
        case .server(let server, let isAsking): send(call, to: server, isAsking: isAsking)
        case .later(let delay, let failure): sendLater(call, delay, failure)
        case .none, .fail: break
        }
    }

    private enum NextStep {
        case none
        case fail(EngineFailure)
        case server(EngineServer, isAsking: Bool)
        case later(Int64, EngineFailure)

        /// The failure that is reported after too many redirections.
        var failure: EngineFailure {
            switch self {
            case .later(_, let failure), .fail(let failure): failure
            case .server, .none: .redirected
            }
        }
    }

    /// Handles a reply to a pinned call; redirections are not followed.
    private func judgePinned(_ reply: EngineReply, from node: EngineNode) -> NextStep {
        guard case .error(let text) = reply, case .failure(let failure) = ErrorMeaning.of(text, from: node.server) else { return .none }
        return .fail(failure)
    }

    private func judge(_ reply: EngineReply, from node: EngineNode) -> NextStep {
        guard case .error(let text) = reply else { return .none }
        switch ErrorMeaning.of(text, from: node.server) {
        case .other: return .none
        case .moved(let slot, let server):
            map?.move(slot, to: server, limit: limits.servers)
            lookUpMap()
            return .server(server, isAsking: false)
        case .ask(let server): return .server(server, isAsking: true)
        case .tryAgain: return .later(Self.tryAgainMilliseconds, .clusterDown)
        case .failure(.loading): return .later(Self.laterMilliseconds, .loading)
        case .failure(let failure) where failure == .clusterDown || failure == .readOnly:
            // The name may lead to another server by now.
            if failure == .readOnly, !isCluster { node.connectAnew() }
            lookUpMap(avoiding: node.server)
            return .later(Self.laterMilliseconds, failure)
        case .failure(let failure): return .fail(failure)
        }
    }
}
