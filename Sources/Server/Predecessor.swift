// The new process in a take-over: receives what the old process hands over, and applies its changes until it has ended. The state machine
// is in `TakeOver/TakingOver.swift`.

import CSystem
import CacheStore
import Dispatch
import Downstream
import Figures
import Glibc
import Reactor
import ReverseProxy
import TakeOver

/// Why this process does not take over. It has written nothing, and the old process continues.
public struct TakeOverError: Error, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
}

/// `@unchecked Sendable` because one thread uses it at a time: first the starting thread, then the one that applies changes.
public final class Predecessor: @unchecked Sendable {
    private let socket: TakeOverSocket
    private var machine = TakingOver()
    private var listeners: [(settings: ListenerSettings, isAdmin: Bool, sockets: [BoundSocket])] = []
    /// Sockets of the service manager, with their names.
    public private(set) var activated: [(name: String, descriptor: Int32)] = []
    private(set) var store: HandedStore?
    private(set) var ticketKeys: [UInt8]?
    private(set) var takeOverListener: BoundSocket?
    /// Changes that are applied once this process owns the directory.
    private var changes: [TakeOverMessage] = []
    private var followed: UInt64 = 0
    private let sending = DispatchQueue(label: "cistern.predecessor", qos: .userInitiated)
    let counts = InheritedCounts()
    private let served: Mutex<[ServedListener]> = Mutex([])

    /// Path of the take-over socket of a running process, next to its admin socket.
    public static func path(besides adminSocket: String) -> String { adminSocket + ".take-over" }

    /// Requests the hand-over from the running process, and receives it.
    /// - Parameter adminSocket: path of the running process's admin socket, from the settings; nil if there is none.
    public init(of adminSocket: String?, version: String) throws(TakeOverError) {
        guard let adminSocket else {
            throw TakeOverError("admin.socket is off, so the running process cannot be contacted: set admin.socket")
        }
        let path = Self.path(besides: adminSocket)
        guard let socket = TakeOverSocket(connectingTo: path) else {
            throw TakeOverError("no running Cistern responds at \(path) (\(SystemError.words())): start without --take-over")
        }
        guard socket.isOfSameUser else {
            throw TakeOverError("the process that listens at \(path) belongs to another user: run as that user")
        }
        self.socket = socket
        let hello = TakeOverMessage.hello(
            Greeting(storeFormat: ResponseStore.format, process: UInt32(getpid()), version: version))
        _ = socket.send(hello)
        try receive()
    }

    private func receive() throws(TakeOverError) {
        while true {
            let (event, received) = next(within: .patience)
            switch machine.handle(event) {
            case .keep(let message):
                if let received { try keep(message, received) }
            case .prepare: return
            case .end(let reason): throw TakeOverError(reason)
            default: break
            }
        }
    }

    private func next(within deadline: TakeOverSocket.Deadline?) -> (TakingOver.Event, TakeOverSocket.Received?) {
        do throws(TakeOverSocket.NoMessage) {
            let received = try socket.receive(within: deadline)
            return (.received(received.message), received)
        } catch {
            return (error == .silent ? .silent : error == .gone ? .gone : .garbled, nil)
        }
    }

    private func keep(_ message: TakeOverMessage, _ received: TakeOverSocket.Received) throws(TakeOverError) {
        switch message {
        case .listener(let listener):
            guard let address = ListenAddress(listener.wanted) else { throw Self.noSocket(listener.wanted) }
            var sockets: [BoundSocket] = []
            for _ in 0..<received.count {
                guard let socket = BoundSocket(adopting: received.next()) else { throw Self.noSocket(listener.wanted) }
                sockets.append(socket)
            }
            guard !sockets.isEmpty, sockets.count == Int(listener.sockets) else { throw Self.noSocket(listener.wanted) }
            listeners.append((ListenerSettings(address), listener.isAdmin, sockets))
        case .activated(let name):
            let descriptor = received.next()
            if let problem = BoundSocket.whyNotListening(descriptor.number) {
                throw TakeOverError("the running process handed over the socket \(name): \(problem)")
            }
            // The listener that uses a descriptor owns it, so this is a duplicate.
            activated.append((name, csystem_duplicate(descriptor.number)))
        case .store: store = HandedStore(lock: received.next(), index: received.next())
        case .takeOverListener: takeOverListener = BoundSocket(adopting: received.next())
        case .ticketKeys(let keys): ticketKeys = keys
        default: break
        }
    }

    private static func noSocket(_ address: String) -> TakeOverError {
        TakeOverError("the socket that the running process handed over for \(address) does not listen")
    }

    // MARK: Preparing

    /// - Throws: if this process needs a store and the running process hands none over. It may still have the directory open.
    func check(isStoring: Bool) throws(TakeOverError) {
        guard isStoring, store == nil else { return }
        throw TakeOverError(
            "the running process hands over no store, because it has none or cannot write to its directory: restart instead")
    }

    /// Creates listeners with the inherited sockets. The new listeners are made from them.
    func inherited() -> [ServedListener] {
        let all = listeners.map { ServedListener($0.settings, isAdmin: $0.isAdmin, $0.sockets) }
        served.withLock { $0 = all }
        listeners = []
        return all
    }

    /// Reports that this process is prepared, and waits until it may serve.
    /// - Parameter used: the listeners that this process uses.
    func waitForCommit(_ used: [ServedListener], _ server: ProxyServer) throws(TakeOverError) {
        let indexes = served.withLock { all in
            defer { all = [] }
            return all.indices.filter { index in used.contains { $0.shares(all[index]) } }
        }
        var isOwn = false
        var action = machine.handle(.isPrepared(listeners: indexes))
        while true {
            switch action {
            case .say(let message): _ = socket.send(message)
            case .follow(let message):
                if isOwn { follow(message, server) } else { changes.append(message) }
            case .own(let end):
                isOwn = true
                server.own(upTo: end)
                store = nil
                for change in changes { follow(change, server) }
                changes = []
            case .serve: return server.sendToPredecessor(socket, on: sending)
            case .end(let reason): throw TakeOverError(reason)
            default: break
            }
            action = machine.handle(next(within: .patience).0)
        }
    }

    /// Reports to the other process that this one cannot take over, and ends the dialogue.
    public func giveUp(_ reason: String) {
        if case .say(let message) = machine.handle(.isImpossible(reason)) { _ = socket.send(message) }
        socket.end()
    }

    // MARK: After the take-over

    /// Applies changes until the other process has ended. Runs on a separate thread.
    func followToEnd(_ server: ProxyServer) {
        while true {
            switch machine.handle(next(within: nil).0) {
            case .follow(let message): follow(message, server)
            case .noteAcknowledged(let count): server.process.peer.noteAcknowledged(count)
            case .noteAlone: return socket.end()
            default: break
            }
        }
    }

    private func follow(_ message: TakeOverMessage, _ server: ProxyServer) {
        server.follow(message, counts)
        followed += 1
        server.acknowledge(followed, socket, on: sending)
    }
}
