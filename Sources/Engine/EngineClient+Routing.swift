// Which server a command goes to, and what is done with what it says.

import Reactor

extension EngineClient {
    /// TRYAGAIN: keys of the slot are being moved one after another.
    private static let tryAgainMilliseconds: Int64 = 2
    /// What takes longer to pass: data being read in, a Cluster that lacks slots, a server that is a primary no more.
    private static let laterMilliseconds: Int64 = 50

    /// Sends all that has no reply yet to who has it.
    func route(_ call: EngineCall) {
        if let server = call.pinned { return send(call, to: server) }
        guard map != nil else { return hold(call) }
        if let slot = call.slot {
            guard let place = map?.ownerPlace(of: slot) else { return waitForMap(call) }
            return send(call, to: primaryNode(place))
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

    /// - Parameter node: nil: there are too many.
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

    /// Where patience lasts; else the failure is told at once: nobody waits for nothing.
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

    /// All replies of an attempt have come.
    func settle(_ call: EngineCall, from node: EngineNode) {
        guard !call.isFinished else { return }
        var next = NextStep.none
        var again: [Int] = []
        for place in call.open {
            // Who hears of a connection's end may close the client.
            guard !call.isFinished else { return }
            // What has no key goes where the one before it goes.
            if call.commands.places[place].slot == nil, !again.isEmpty {
                again.append(place)
                continue
            }
            let step = call.pinned == nil ? judge(call.replies[place], from: node) : judgePinned(call.replies[place], from: node)
            switch step {
            case .none: break
            case .fail(let failure): call.put(.failed(failure), at: place)
            case .server, .later:
                again.append(place)
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

        /// Where it is not taken.
        var failure: EngineFailure {
            switch self {
            case .later(_, let failure), .fail(let failure): failure
            case .server, .none: .redirected
            }
        }
    }

    /// Whoever asks one server wants to know what that one says.
    private func judgePinned(_ reply: EngineReply, from node: EngineNode) -> NextStep {
        guard case .error(let text) = reply, case .failure(let failure) = ErrorMeaning.of(text, from: node.server) else { return .none }
        return .fail(failure)
    }

    private func judge(_ reply: EngineReply, from node: EngineNode) -> NextStep {
        guard case .error(let text) = reply else { return .none }
        switch ErrorMeaning.of(text, from: node.server) {
        case .other: return .none
        case .moved(let slot, let server):
            _ = map?.move(slot, to: server, limit: limits.servers)
            lookUpMap()
            return .server(server, isAsking: false)
        case .ask(let server): return .server(server, isAsking: true)
        case .tryAgain: return .later(Self.tryAgainMilliseconds, .clusterDown)
        case .failure(.loading): return .later(Self.laterMilliseconds, .loading)
        case .failure(let failure) where failure == .clusterDown || failure == .readOnly:
            // The same name may lead to another server by now.
            if failure == .readOnly, !isCluster { node.connectAnew() }
            lookUpMap(avoiding: node.server)
            return .later(Self.laterMilliseconds, failure)
        case .failure(let failure): return .fail(failure)
        }
    }
}
