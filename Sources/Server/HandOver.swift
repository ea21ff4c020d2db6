// Another process takes over from this one: the dialogue with it, and what is done here for it. What is said when is in `TakeOver/HandingOver.swift`.

import Administration
import CacheStore
import Descriptors
import Dispatch
import Downstream
import Glibc
import Locking
import Logging
import ResponseCache
import ReverseProxy
import TakeOver

/// Where another process asks. `@unchecked Sendable` because what changes is its source's, which guards itself.
final class TakeOverDoor: @unchecked Sendable {
    let socket: BoundSocket
    private let source: any DispatchSourceRead

    /// - Parameter ask: called with each that comes, one after the other.
    init(_ socket: BoundSocket, ask: @escaping @Sendable (TakeOverSocket) -> Void) {
        self.socket = socket
        source = DispatchSource.makeReadSource(fileDescriptor: socket.descriptor, queue: DispatchQueue(label: "cistern.take-over"))
        source.setEventHandler {
            let client = Descriptor(accept(socket.descriptor, nil, nil))
            guard client.isOpen else { return }
            _ = fcntl(client.number, F_SETFD, FD_CLOEXEC)
            ask(TakeOverSocket(client))
        }
        // It holds the socket until it has been cancelled.
        source.setCancelHandler { withExtendedLifetime(socket) {} }
        source.activate()
    }

    func close() { source.cancel() }
}

extension ProxyServer {
    /// From now on another process may take over. `then` is called once one has: what runs here is to be finished (`stop`).
    public func allowTakeOver(then: @escaping @Sendable () -> Void) {
        guard let admin = settings.admin.socket else { return }
        let path = Predecessor.path(besides: admin)
        do throws(ListenError) {
            let socket = if let handed = predecessor?.door { handed } else { try BoundSocket(.unix(path: path), backlog: 8, mode: 0o600) }
            let door = TakeOverDoor(socket) { [weak self] client in
                guard let self else { return }
                reloadQueue.sync { self.converse(with: client, then: then) }
            }
            self.door.withLock { $0 = (door, path) }
        } catch {
            logger.warning("no other process can take over: \(error)")
        }
    }

    func closeDoor(isHandedOver: Bool) {
        guard let (door, path) = door.withLock({ $0 }) else { return }
        door.close()
        if !isHandedOver { unlink(path) }
    }

    /// The names of clients' places are of no matter to the one who comes.
    private func converse(with socket: TakeOverSocket, then: @escaping @Sendable () -> Void) {
        guard socket.isOfSameUser else { return }
        var machine = HandingOver(storeFormat: ResponseStore.format, version: settings.version)
        var event = Self.next(socket)
        var number: UInt32 = 0
        while true {
            switch machine.handle(event) {
            case .refuse(let reason):
                _ = socket.send(.refused(reason))
                return logger.warning("no other process takes over: \(reason)")
            case .offer(let greeting):
                if let reason = whyNotNow {
                    _ = socket.send(.refused(reason))
                    return logger.warning("no other process takes over: \(reason)")
                }
                number = greeting.process
                machine.listeners = serving.listeners.count
                offer(to: socket)
                event = Self.next(socket)
            case .commit(let places):
                guard commit(places, socket) else {
                    event = .notCommitted
                    continue
                }
                logger.notice("process \(number) has taken over; what was begun here is finished here")
                then()
                return followAcknowledgements(machine, socket)
            case .takeBack(let reason):
                process.successor.end()
                anyCache?.goOn()
                _ = socket.send(.refused(reason))
                return logger.warning("process \(number) does not take over, and this one goes on: \(reason)")
            case .nothing, .noteAcknowledged, .goAlone: return
            }
        }
    }

    private static func next(_ socket: TakeOverSocket, patience: Int? = HandingOver.patienceMilliseconds) -> HandingOver.Event {
        do throws(TakeOverSocket.NoMessage) {
            return .came(try socket.receive(patience: patience).message)
        } catch {
            return error == .silent ? .silent : error == .gone ? .gone : .garbled
        }
    }

    private var whyNotNow: String? {
        if !isReady { return "the running process is about to end" }
        if process.successor.hasAll { return "another process has taken over already" }
        if isFollowing { return "the process before the running one has not ended yet: it finishes what it has begun" }
        return process.recorder == nil ? nil : "the running process records"
    }

    private func offer(to socket: TakeOverSocket) {
        let serving = serving
        var names: [Int32: String] = [:]
        for listener in serving.listeners {
            if case .handed(let name, let descriptor) = listener.settings.address { names[descriptor] = name }
            let sockets = listener.sockets.map(\.descriptor)
            let message = HandedListener(
                wanted: listener.settings.address.description, isAdmin: listener.isAdmin, sockets: UInt32(sockets.count))
            _ = socket.send(.listener(message), sockets)
        }
        for (descriptor, name) in names.sorted(by: { $0.key < $1.key }) { _ = socket.send(.handed(name: name), [descriptor]) }
        if let (door, _) = door.withLock({ $0 }) { _ = socket.send(.door, [door.socket.descriptor]) }
        if let tickets = serving.certificates?.tickets { _ = socket.send(.ticketKeys(tickets.bytes)) }
        // The store waits for as short a time as can be.
        if let store = anyCache?.hold() { _ = socket.send(.store, store.descriptors) }
        _ = socket.send(.offered)
    }

    /// What has changed since it was offered goes first, so the other process begins with all that this one knows.
    /// - Returns: false where the other process cannot have heard of it.
    private func commit(_ places: [Int], _ socket: TakeOverSocket) -> Bool {
        guard isReady, claimEnd() else { return false }
        let serving = serving
        let successor = process.successor
        let sending = DispatchQueue(label: "cistern.successor", qos: .userInitiated)
        successor.begin { message in sending.async { _ = socket.send(message) } }
        for api in serving.apis { successor.tell(.modes(api.state.passedModes)) }
        successor.tell(.faults(process.passedFaults))
        successor.tell(.counts(countsNow()))
        anyCache?.pass { successor.tell(.change($0)) }
        guard sending.sync(execute: { socket.send(.committed) }) else {
            giveBackEnd()
            return false
        }
        // From here on nothing is taken back.
        successor.takeAll()
        anyCache?.leave()
        let listeners = places.map { serving.listeners[$0] }
        handedOver.withLock { $0 = listeners }
        let left = DispatchSemaphore(value: 0)
        onEachShard {
            $0.leave(listeners)
        } then: {
            left.signal()
        }
        left.wait()
        sending.async { _ = socket.send(.begin) }
        return true
    }

    /// Until the other process has ended, or this one has.
    private func followAcknowledgements(_ machine: HandingOver, _ socket: TakeOverSocket) {
        let successor = process.successor
        DispatchQueue(label: "cistern.acknowledgements", qos: .userInitiated).async {
            var machine = machine
            while true {
                switch machine.handle(Self.next(socket, patience: nil)) {
                case .noteAcknowledged(let count): successor.noteAcknowledged(count)
                case .nothing: break
                default: return successor.end()
                }
            }
        }
    }

    /// Waits for all loops.
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

    /// The last that the other process hears, once all that was begun here is done.
    func tellLast(_ page: [UInt8]) {
        let successor = process.successor
        successor.tell(.counts(page))
        let done = DispatchSemaphore(value: 0)
        successor.whenKnown { done.signal() }
        done.wait()
    }
}
