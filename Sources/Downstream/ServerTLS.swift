// One shard's side of TLS: what its handshakes are made with, how many run, and how they take turns.

import CTLS
import Reactor

/// The keys of session tickets, which all shards share. `@unchecked Sendable` because the C side guards them by a lock of its own.
public final class TicketKeys: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Two older keys are still taken: a ticket is good for a day at least.
    public static let rotation = Duration.seconds(12 * 3_600)

    /// - Returns: nil where there is no randomness.
    public init?() {
        guard let pointer = ctls_tickets_make() else { return nil }
        self.pointer = pointer
    }

    /// Those of another process; nil where these are none.
    public init?(_ bytes: [UInt8]) {
        guard let pointer = bytes.withUnsafeBytes({ ctls_tickets_read($0.baseAddress, $0.count) }) else { return nil }
        self.pointer = pointer
    }

    deinit { ctls_tickets_free(pointer) }

    /// From any thread.
    public func rotate() { _ = ctls_tickets_rotate(pointer) }

    /// For another process on this machine, and nobody else.
    public var bytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(ctls_tickets_size())) { $1 = ctls_tickets_write(pointer, $0.baseAddress) }
    }
}

/// Counts since the start, except `running`.
public struct HandshakeCounters: Sendable {
    public var running = 0
    public var full = 0
    public var resumed = 0
    /// By `HandshakeFailure.allCases`.
    public var failed = [Int](repeating: 0, count: HandshakeFailure.allCases.count)
}

/// Touched on its loop only.
public final class ServerTLS {
    private(set) var certificates: ServerCertificates
    private var contexts: [TLSContext]
    let tickets: TicketKeys
    private let loop: EventLoop
    public private(set) var counters = HandshakeCounters()
    public var handshakeLimit: Int { certificates.settings.handshakeLimit }
    /// Told of each that failed.
    public var onFailure: (HandshakeFailure, PeerAddress) -> Void = { _, _ in }

    /// Those that run, the oldest first: each knows its neighbours.
    private var oldest: TLSHandshake?
    private var newest: TLSHandshake?
    /// How many of them each client has.
    private var runningByClient: [UInt128: Int] = [:]
    /// Those that have something to do and wait for their turn.
    private var waiting: [TLSHandshake] = []
    private var isTurnQueued = false
    /// When the batch of events began in which time was last taken, and how much.
    private var turnBegan: Int64 = 0
    private var turnMicroseconds: Int64 = 0

    /// What handshakes may take of a round of the loop before others have their turn (microseconds). One that has begun is not interrupted.
    private static let turnLimit: Int64 = 1_000

    /// Where there is no room for all, a client has one of so many parts for sure.
    private static let clientsInCrowd = 16

    public init(_ prepared: Prepared, tickets: TicketKeys, loop: EventLoop) {
        (certificates, contexts) = (prepared.certificates, prepared.contexts)
        (self.tickets, self.loop) = (tickets, loop)
    }

    /// What one shard is going to use. `@unchecked Sendable` because it is made by one thread and then touched by its shard only.
    public final class Prepared: @unchecked Sendable {
        fileprivate let certificates: ServerCertificates
        fileprivate let contexts: [TLSContext]

        fileprivate init?(_ certificates: ServerCertificates) {
            contexts = certificates.entries.compactMap { TLSContext($0) }
            guard contexts.count == certificates.entries.count else { return nil }
            self.certificates = certificates
        }

        /// One for each of so many shards. Beside the loops: reading keys takes its time.
        /// - Returns: nil where OpenSSL has no memory for all of them.
        public static func make(_ certificates: ServerCertificates, shards: Int) -> [Prepared]? {
            let all = (0..<shards).compactMap { _ in Prepared(certificates) }
            return all.count == shards ? all : nil
        }
    }

    /// Connections from now on get these; those that stand keep what they have.
    public func use(_ prepared: Prepared) {
        loop.assertOnLoop()
        (certificates, contexts) = (prepared.certificates, prepared.contexts)
    }

    /// TLS on a new connection.
    func accept(_ descriptor: Int32) -> ClientTLS? { ClientTLS(contexts[0], tickets, descriptor) }

    /// Chooses by name what the client gets.
    /// - Returns: the place of what it gets; nil where there is no memory.
    func choose(for handshake: ClientTLS, name: String, _ listener: ListenerSettings) -> Int? {
        let place = certificates.place(for: name, on: listener.verification, takes: handshake.takes)
        let verification = listener.verification ?? certificates.entries[place].settings.verification
        return handshake.choose(contexts[place], verification, for: listener) ? place : nil
    }

    // MARK: Those that run

    func begin(_ handshake: TLSHandshake) {
        counters.running += 1
        if let client = handshake.client { runningByClient[client, default: 0] += 1 }
        handshake.older = newest
        newest?.newer = handshake
        newest = handshake
        if oldest == nil { oldest = handshake }
        if counters.running > certificates.settings.handshakeLimit { crowdedOut(by: handshake)?.fail(.crowded) }
    }

    /// Who has to go for one that has just begun. A client that has more under way than its share makes room itself: else it would drive out those
    /// of others, who have done nothing.
    private func crowdedOut(by newcomer: TLSHandshake) -> TLSHandshake? {
        let share = certificates.settings.handshakeLimit / Self.clientsInCrowd
        guard let client = newcomer.client, runningByClient[client, default: 0] > max(1, share) else { return oldest }
        var one = oldest
        while let candidate = one, candidate.client != client { one = candidate.newer }
        return one
    }

    /// - Parameter failure: nil where TLS is agreed.
    func end(_ handshake: TLSHandshake, _ failure: HandshakeFailure?, isResumed: Bool = false) {
        counters.running -= 1
        leave(handshake)
        if let failure, let place = HandshakeFailure.allCases.firstIndex(of: failure) {
            counters.failed[place] += 1
            onFailure(failure, handshake.peer)
        } else if isResumed {
            counters.resumed += 1
        } else {
            counters.full += 1
        }
    }

    private func leave(_ handshake: TLSHandshake) {
        if let older = handshake.older { older.newer = handshake.newer } else { oldest = handshake.newer }
        if let newer = handshake.newer { newer.older = handshake.older } else { newest = handshake.older }
        (handshake.older, handshake.newer) = (nil, nil)
        guard let client = handshake.client, let count = runningByClient[client] else { return }
        runningByClient[client] = count > 1 ? count - 1 : nil
    }

    // MARK: Turns

    /// Something has come for a handshake: it goes on now, or when others have had their turn.
    func schedule(_ handshake: TLSHandshake) {
        if waiting.isEmpty, mayGoOn { return goOn(handshake) }
        waiting.append(handshake)
        queueTurn()
    }

    private var mayGoOn: Bool {
        if turnBegan != loop.batchMicroseconds { (turnBegan, turnMicroseconds) = (loop.batchMicroseconds, 0) }
        return turnMicroseconds < Self.turnLimit
    }

    private func goOn(_ handshake: TLSHandshake) {
        let began = SystemTime.monotonicMicroseconds
        handshake.goOn()
        turnMicroseconds += SystemTime.monotonicMicroseconds - began
    }

    private func queueTurn() {
        guard !isTurnQueued else { return }
        isTurnQueued = true
        loop.inNextRound { [self] in takeTurn() }
    }

    private func takeTurn() {
        isTurnQueued = false
        var done = 0
        while done < waiting.count, mayGoOn {
            done += 1
            goOn(waiting[done - 1])
        }
        waiting.removeFirst(done)
        if !waiting.isEmpty { queueTurn() }
    }
}
