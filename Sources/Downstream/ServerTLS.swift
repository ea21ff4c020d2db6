// TLS state of one shard: its contexts, the running handshakes, and the order in which these proceed.

import CTLS
import Figures
import Reactor

/// Keys of session tickets, shared by all shards. `@unchecked Sendable` because the C side protects them with a lock.
public final class TicketKeys: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Interval between new keys. Two older keys remain valid, so a ticket is valid for at least a day.
    public static let rotation = Duration.seconds(12 * 3_600)

    /// - Returns: nil if no random numbers are available.
    public init?() {
        guard let pointer = ctls_tickets_make() else { return nil }
        self.pointer = pointer
    }

    /// Restores the keys of another process; nil if the bytes are invalid.
    public init?(_ bytes: [UInt8]) {
        guard let pointer = bytes.withUnsafeBytes({ ctls_tickets_read($0.baseAddress, $0.count) }) else { return nil }
        self.pointer = pointer
    }

    deinit { ctls_tickets_free(pointer) }

    /// Creates a new key. May be called from any thread.
    public func rotate() { _ = ctls_tickets_rotate(pointer) }

    /// The secret keys, for another process on this machine only.
    public var bytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(ctls_tickets_size())) { $1 = ctls_tickets_write(pointer, $0.baseAddress) }
    }
}

/// The TLS state of a shard. Used on its event loop only.
public final class ServerTLS {
    private(set) var certificates: ServerCertificates
    private var contexts: [TLSContext]
    let tickets: TicketKeys
    private let loop: EventLoop
    /// Number of running handshakes, and counters of ended ones.
    public private(set) var running = 0
    public private(set) var figures = LabelledFigures()
    public var handshakeLimit: Int { certificates.settings.handshakeLimit }
    /// Called for each failed handshake.
    public var onFailure: (HandshakeFailure, PeerAddress) -> Void = { _, _ in }

    /// Ends of the linked list of running handshakes, in order of their start.
    private var oldest: TLSHandshake?
    private var newest: TLSHandshake?
    /// Number of running handshakes of each client.
    private var runningByClient: [UInt128: Int] = [:]
    /// Handshakes with input that wait for their turn.
    private var waiting: [TLSHandshake] = []
    private var isTurnQueued = false
    /// Start of the batch of events in which handshakes last ran, and time that they used in it, in microseconds.
    private var turnBegan: Int64 = 0
    private var turnMicroseconds: Int64 = 0

    /// Maximum time in microseconds that handshakes may use in one round of the loop. A running step is not interrupted.
    private static let turnLimit: Int64 = 1_000

    /// Divisor of the handshake limit. At the limit, a client with more handshakes than the quotient loses its own oldest one.
    private static let clientsInCrowd = 16

    public init(_ prepared: Prepared, tickets: TicketKeys, loop: EventLoop) {
        (certificates, contexts) = (prepared.certificates, prepared.contexts)
        (self.tickets, self.loop) = (tickets, loop)
    }

    /// The contexts of one shard. `@unchecked Sendable` because one thread creates it and then only its shard uses it.
    public final class Prepared: @unchecked Sendable {
        fileprivate let certificates: ServerCertificates
        fileprivate let contexts: [TLSContext]

        fileprivate init?(_ certificates: ServerCertificates) {
            contexts = certificates.entries.compactMap { TLSContext($0) }
            guard contexts.count == certificates.entries.count else { return nil }
            self.certificates = certificates
        }

        /// Prepares the contexts of each shard. Must be called off the event loops, because reading keys takes long.
        /// - Returns: nil if OpenSSL has no memory for all of them.
        public static func make(_ certificates: ServerCertificates, shards: Int) -> [Prepared]? {
            let all = (0..<shards).compactMap { _ in Prepared(certificates) }
            return all.count == shards ? all : nil
        }
    }

    /// Applies new certificates to new connections. Open connections keep theirs.
    public func use(_ prepared: Prepared) {
        loop.assertOnLoop()
        (certificates, contexts) = (prepared.certificates, prepared.contexts)
    }

    /// Starts TLS on a new connection.
    func accept(_ descriptor: Int32) -> ClientTLS? { ClientTLS(contexts[0], tickets, descriptor) }

    /// Selects the certificate and the rules by server name.
    /// - Returns: index of the certificate; nil if memory is exhausted.
    func choose(for handshake: ClientTLS, name: String, _ listener: ListenerSettings) -> Int? {
        let index = certificates.index(for: name, on: listener.verification, takes: handshake.takes)
        let verification = listener.verification ?? certificates.entries[index].settings.verification
        return handshake.choose(contexts[index], verification, for: listener) ? index : nil
    }

    // MARK: Running handshakes

    func begin(_ handshake: TLSHandshake) {
        running += 1
        if let client = handshake.client { runningByClient[client, default: 0] += 1 }
        handshake.older = newest
        newest?.newer = handshake
        newest = handshake
        if oldest == nil { oldest = handshake }
        if running > certificates.settings.handshakeLimit { crowdedOut(by: handshake)?.fail(.crowded) }
    }

    /// Selects the handshake that must end because another one has begun. A client with more running handshakes than its share loses its
    /// own oldest one, so that it cannot displace those of other clients.
    private func crowdedOut(by newcomer: TLSHandshake) -> TLSHandshake? {
        let share = certificates.settings.handshakeLimit / Self.clientsInCrowd
        guard let client = newcomer.client, runningByClient[client, default: 0] > max(1, share) else { return oldest }
        var one = oldest
        while let candidate = one, candidate.client != client { one = candidate.newer }
        return one
    }

    /// Ends a handshake.
    /// - Parameter failure: nil if it succeeded.
    func end(_ handshake: TLSHandshake, _ failure: HandshakeFailure?, isResumed: Bool = false) {
        running -= 1
        leave(handshake)
        if let failure {
            figures.count(.tlsHandshakesFailed, of: failure)
            onFailure(failure, handshake.peer)
        } else {
            figures.count(.tlsHandshakes, isResumed ? 1 : 0)
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

    /// Continues a handshake that has input: now, or after the turn of other handshakes.
    func schedule(_ handshake: TLSHandshake) {
        if waiting.isEmpty, mayResume { return resume(handshake) }
        waiting.append(handshake)
        queueTurn()
    }

    private var mayResume: Bool {
        if turnBegan != loop.batchMicroseconds { (turnBegan, turnMicroseconds) = (loop.batchMicroseconds, 0) }
        return turnMicroseconds < Self.turnLimit
    }

    private func resume(_ handshake: TLSHandshake) {
        let began = SystemTime.monotonicMicroseconds
        handshake.resume()
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
        while done < waiting.count, mayResume {
            done += 1
            resume(waiting[done - 1])
        }
        waiting.removeFirst(done)
        if !waiting.isEmpty { queueTurn() }
    }
}
