// The old process in a take-over: the dialogue with the new process, and the steps on this side. The state machine is in
// `TakeOver/HandingOver.swift`.

import Administration
import CacheStore
import Dispatch
import Downstream
import Figures
import Glibc
import Logging
import Reactor
import ResponseCache
import ReverseProxy
import TakeOver

/// The socket to which a new process connects. `@unchecked Sendable` because the only mutable state is the dispatch source, which is
/// thread-safe.
final class TakeOverListener: @unchecked Sendable {
    let socket: BoundSocket
    private let source: any DispatchSourceRead

    /// - Parameter ask: called for each connection, one after the other.
    init(_ socket: BoundSocket, ask: @escaping @Sendable (TakeOverSocket) -> Void) {
        self.socket = socket
        source = DispatchSource.makeReadSource(fileDescriptor: socket.descriptor, queue: DispatchQueue(label: "cistern.take-over"))
        source.setEventHandler {
            let client = Descriptor(accept(socket.descriptor, nil, nil))
            guard client.isOpen else { return }
            _ = fcntl(client.number, F_SETFD, FD_CLOEXEC)
            ask(TakeOverSocket(client))
        }
        // The handler keeps the socket open until the source has been cancelled.
        source.setCancelHandler { withExtendedLifetime(socket) {} }
        source.activate()
    }

    func close() { source.cancel() }
}

extension ProxyServer {
    /// Allows another process to take over. `then` is called after a take-over; the caller then stops this process with `stop`.
    public func allowTakeOver(then: @escaping @Sendable () -> Void) {
        guard let admin = settings.admin.socket else { return }
        let path = Predecessor.path(besides: admin)
        do throws(ListenError) {
            let socket =
                if let inherited = predecessor?.takeOverListener { inherited } else {
                    try BoundSocket(.unix(path: path), backlog: 8, mode: 0o600)
                }
            let takeOverListener = TakeOverListener(socket) { [weak self] client in
                guard let self else { return }
                converse(with: client, then: then)
            }
            self.takeOverListener.withLock { $0 = (takeOverListener, path) }
        } catch {
            logger.warning("the take-over socket cannot be opened, so no other process can take over: \(error)")
        }
    }

    func closeTakeOverListener(isHandedOver: Bool) {
        guard let (takeOverListener, path) = takeOverListener.withLock({ $0 }) else { return }
        takeOverListener.close()
        if !isHandedOver { unlink(path) }
    }

    private func converse(with socket: TakeOverSocket, then: @escaping @Sendable () -> Void) {
        guard socket.isOfSameUser else {
            return refuse(socket, "the running process belongs to another user")
        }
        var machine = HandingOver(storeFormat: ResponseStore.format, version: settings.version)
        switch machine.handle(Self.next(socket, within: .patience)) {
        case .refuse(let reason): refuse(socket, reason)
        case .offer(let greeting):
            // Reloads wait on this queue until the hand-over has ended.
            reloadQueue.sync {
                if let reason = takeOverObstacle { return refuse(socket, reason) }
                handOver(to: socket, greeting, machine, then)
            }
        default: break
        }
    }

    private func refuse(_ socket: TakeOverSocket, _ reason: String) {
        _ = socket.send(.refused(reason))
        noteFailedTakeOver()
        logger.warning("a take-over was refused: \(reason)")
    }

    private func handOver(
        to socket: TakeOverSocket, _ greeting: Greeting, _ begun: HandingOver, _ then: @escaping @Sendable () -> Void
    ) {
        var machine = begun
        machine.listeners = serving.listeners.count
        let sending = DispatchQueue(label: "cistern.successor", qos: .userInitiated)
        var event: HandingOver.Event = offer(to: socket) ? Self.next(socket, within: .patience) : .gone
        while true {
            switch machine.handle(event) {
            case .commit(let indexes):
                guard commit(indexes, socket, greeting, on: sending) else {
                    event = .notCommitted
                    continue
                }
                logger.notice("process \(greeting.process) has taken over; this process completes its active requests and then exits")
                then()
                return followSuccessor(machine, socket, answeringOn: sending)
            case .takeBack(let reason):
                process.peer.end()
                anyCache?.resume()
                _ = socket.send(.refused(reason))
                noteFailedTakeOver()
                return logger.warning("the take-over by process \(greeting.process) failed, and this process continues: \(reason)")
            default: return
            }
        }
    }

    /// Maximum length in bytes of a message that changes the state of the dialogue.
    private static let wordLimit = 64 << 10

    private static func next(
        _ socket: TakeOverSocket, within deadline: TakeOverSocket.Deadline?, limit: Int = wordLimit
    ) -> HandingOver.Event {
        do throws(TakeOverSocket.NoMessage) {
            return .received(try socket.receive(within: deadline, limit: limit).message)
        } catch {
            return error == .silent ? .silent : error == .gone ? .gone : .garbled
        }
    }

    private var takeOverObstacle: String? {
        if !isReady { return "the running process is stopping" }
        if process.peer.hasAll { return "another process has taken over already" }
        if isFollowing { return "the predecessor of the running process is still completing its active requests: try again later" }
        return process.recorder == nil ? nil : "the running process is recording (cistern record)"
    }

    /// - Returns: whether all messages were sent.
    private func offer(to socket: TakeOverSocket) -> Bool {
        let serving = serving
        var names: [Int32: String] = [:]
        var isSent = true
        func send(_ message: TakeOverMessage, _ descriptors: [Int32] = []) { isSent = isSent && socket.send(message, descriptors) }
        for listener in serving.listeners {
            if case .activated(let name, let descriptor) = listener.settings.address { names[descriptor] = name }
            let sockets = listener.sockets.map(\.descriptor)
            let message = HandedListener(
                wanted: listener.settings.address.description, isAdmin: listener.isAdmin, sockets: UInt32(sockets.count))
            send(.listener(message), sockets)
        }
        for (descriptor, name) in names.sorted(by: { $0.key < $1.key }) { send(.activated(name: name), [descriptor]) }
        if let (takeOverListener, _) = takeOverListener.withLock({ $0 }) { send(.takeOverListener, [takeOverListener.socket.descriptor]) }
        if let tickets = serving.certificates?.tickets { send(.ticketKeys(tickets.bytes)) }
        if let store = anyCache?.offer() { send(.store, store.descriptors) }
        send(.offered)
        return isSent
    }

    /// - Returns: false if the other process cannot have received the commit message.
    private func commit(_ indexes: [Int], _ socket: TakeOverSocket, _ greeting: Greeting, on sending: DispatchQueue) -> Bool {
        guard isReady, claimEnd() else { return false }
        keepFleetPosition()
        let serving = serving
        let peer = process.peer
        beginSending(socket, isSuccessor: true, on: sending)
        for api in serving.apis { peer.send(.modes(api.state.passedModes)) }
        peer.send(.faults(process.passedFaults))
        peer.send(.counts(countsNow()))
        let readsIdentities = greeting.isAtLeast(settings.version)
        let end = anyCache?.pass { change in
            if case .identities = change, !readsIdentities { return }
            peer.send(.change(change))
        }
        guard sending.sync(execute: { socket.send(.committed(end ?? HandedPosition())) }) else {
            releaseEnd()
            return false
        }
        // From here on the hand-over cannot be undone.
        peer.takeAll()
        anyCache?.leave()
        let listeners = indexes.map { serving.listeners[$0] }
        handedOver.withLock { $0 = listeners }
        let left = DispatchSemaphore(value: 0)
        onEachShard {
            $0.stopAccepting(listeners)
        } then: {
            left.signal()
        }
        left.wait()
        sending.async { _ = socket.send(.begin) }
        return true
    }

    /// Sends this process's changes to the other process from now on. If a message cannot be sent, the connection ends.
    func beginSending(_ socket: TakeOverSocket, isSuccessor: Bool, on sending: DispatchQueue) {
        process.peer.begin(isSuccessor: isSuccessor) { [process, logger] message in
            sending.async {
                guard !socket.isEnded, !socket.send(message) else { return }
                socket.end()
                process.peer.end()
                logger.warning("the connection to the other process failed: it does not receive this process's changes any more")
            }
        }
    }

    /// Applies the changes of the new process until the connection ends.
    private func followSuccessor(_ machine: HandingOver, _ socket: TakeOverSocket, answeringOn sending: DispatchQueue) {
        let counts = InheritedCounts()
        PeerProcess.makeFollowingQueue().async { [self] in
            var machine = machine
            var followed: UInt64 = 0
            while true {
                switch machine.handle(Self.next(socket, within: nil, limit: TakeOverMessage.limitBytes)) {
                case .noteAcknowledged(let count): process.peer.noteAcknowledged(count)
                case .follow(let message):
                    follow(message, counts)
                    followed += 1
                    acknowledge(followed, socket, on: sending)
                case .goAlone: return process.peer.end()
                default: break
                }
            }
        }
    }

    /// Sends the acknowledgement after all messages that were queued before.
    func acknowledge(_ followed: UInt64, _ socket: TakeOverSocket, on sending: DispatchQueue) {
        // Requests that wait for the acknowledgement rely on the change being on disk.
        if !process.peer.hasAll { anyCache?.flushMarks() }
        sending.async { _ = socket.send(.acknowledged(followed)) }
    }

    /// Blocks until all loops have reported their counts.
    private func countsNow() -> [UInt8] {
        let done = DispatchSemaphore(value: 0)
        let page = Mutex<[UInt8]>([])
        collectMetrics { [self] snapshot in
            page.withLock { $0 = countsPage(snapshot) }
            done.signal()
        }
        done.wait()
        return page.withLock { $0 }
    }

    /// Sends the last counts to the other process, and waits for their acknowledgement. Called when all work of this process has ended.
    func sendLastCounts(_ page: [UInt8]) {
        process.peer.send(.counts(page))
        let done = DispatchSemaphore(value: 0)
        process.peer.whenKnown { done.signal() }
        done.wait()
    }
}
