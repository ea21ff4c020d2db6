// TLS on one client's socket, which it uses and does not own: records in and out, their sizes, and what is given back while nothing happens.

import CTLS

final class ClientTLS {
    /// nil once it was closed.
    private var pointer: OpaquePointer?
    /// Outlives what was made with it.
    private let tickets: TicketKeys

    /// What of the bytes offered last lies in a record that the kernel has not taken all of.
    private var begunBytes = 0
    private var records = RecordSizes()
    /// Content may be there that the kernel no longer has.
    private(set) var holdsInput = false
    /// Something of TLS's own has to go out before more can be read.
    private(set) var readWaitsForWrite = false
    private var isUsed = true
    private var hasBuffers = true

    /// What is encrypted in one go, about 0.5 ms: others want their turn.
    private static let turnBytes = 512 << 10

    init?(_ context: TLSContext, _ tickets: TicketKeys, _ descriptor: Int32) {
        guard let pointer = ctls_accept(context.pointer, tickets.pointer, descriptor) else { return nil }
        self.pointer = pointer
        self.tickets = tickets
    }

    deinit { close() }

    // MARK: The handshake

    enum Step {
        case agreed, wantsRead, wantsWrite
        /// `choose` before the next step.
        case wantsChoice(name: String)
        case failed(HandshakeFailure)
    }

    func step() -> Step {
        guard let pointer else { return .failed(.ended) }
        switch Int(ctls_accept_step(pointer)) {
        case 0:
            holdsInput = ctls_holds_input(pointer) != 0
            return .agreed
        case CTLS_WANTS_READ: return .wantsRead
        case CTLS_WANTS_WRITE: return .wantsWrite
        case CTLS_WANTS_CHOICE: return .wantsChoice(name: String(cString: ctls_accept_name(pointer)))
        default: return .failed(HandshakeFailure(ctls_accept_failure(pointer)))
        }
    }

    /// - Returns: false where there is no memory.
    func choose(_ context: TLSContext, _ verification: ClientVerification, for listener: ListenerSettings) -> Bool {
        guard let pointer else { return false }
        let name = Array(listener.address.description.utf8)
        return name.withCTLSBytes {
            ctls_accept_choose(pointer, context.pointer, verification.number, $0, listener.offersHTTP2 ? 1 : 0) != 0
        }
    }

    /// Before the choice: whether the client takes keys that sign by this scheme (RFC 8446 §4.2.3).
    func takes(_ scheme: Int32) -> Bool { pointer.map { ctls_accept_takes($0, scheme) != 0 } ?? false }

    var speaksHTTP2: Bool { pointer.map { ctls_is_http2($0) != 0 } ?? false }
    var isResumed: Bool { pointer.map { ctls_is_resumed($0) != 0 } ?? false }
    var version: String { pointer.map { String(cString: ctls_version($0)) } ?? "" }

    func certificate(by identification: ClientIdentification) -> ClientCertificate? {
        pointer.flatMap { ClientCertificate($0, by: identification) }
    }

    // MARK: Bytes

    func receive(into space: UnsafeMutableBufferPointer<UInt8>) -> ClientTransport.Received {
        guard let pointer else { return .broken }
        (isUsed, hasBuffers) = (true, true)
        readWaitsForWrite = false
        var taken = 0
        repeat {
            let count = ctls_read(pointer, space.baseAddress! + taken, space.count - taken)
            guard count > 0 else {
                readWaitsForWrite = count == CTLS_WANTS_WRITE
                // An end that came together with content is told at the next call, and the kernel will not ask for that.
                holdsInput = taken > 0 && count != CTLS_WANTS_READ && count != CTLS_WANTS_WRITE
                if taken > 0 { return .bytes(taken) }
                switch count {
                case CTLS_WANTS_READ, CTLS_WANTS_WRITE: return .nothing
                case CTLS_CLOSED: return .ended
                // Many clients go without a word; where something is missing, its framing tells.
                default: return ctls_was_ended(pointer) != 0 ? .ended : .broken
                }
            }
            taken += count
            holdsInput = ctls_holds_input(pointer) != 0
        } while holdsInput && taken < space.count
        return .bytes(taken)
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let pointer else { return nil }
        (isUsed, hasBuffers) = (true, true)
        var sent = 0
        while sent < min(bytes.count, Self.turnBytes) {
            let size = begunBytes > 0 ? begunBytes : records.next(of: bytes.count - sent)
            guard size <= bytes.count - sent else { return nil }
            let count = ctls_write(pointer, bytes.baseAddress! + sent, size)
            guard count > 0 else {
                // Nothing has to be read first: there is no renegotiation.
                guard count == CTLS_WANTS_WRITE else { return nil }
                begunBytes = size
                break
            }
            begunBytes = 0
            records.sent(count)
            sent += count
        }
        return sent
    }

    // MARK: Rest and end

    /// Called from time to time while nothing is under way: what an idle connection does not need is given back.
    func rest() {
        guard !isUsed, hasBuffers, !holdsInput, begunBytes == 0, let pointer else {
            isUsed = false
            return
        }
        records = RecordSizes()
        ctls_free_buffers(pointer)
        hasBuffers = false
    }

    /// - Returns: false where the kernel has no room for that word: then to be called again.
    func endSending() -> Bool { pointer.map { ctls_end_sending($0) == 0 } ?? true }

    /// Nothing is said at the end: nobody shall take what was sent for whole.
    func spoil() {
        if let pointer { ctls_spoil(pointer) }
    }

    /// Says good-bye where that can be said at once. Before the descriptor is closed.
    func close() {
        guard let pointer else { return }
        self.pointer = nil
        ctls_close(pointer)
    }
}

/// How large a record is. A client can use it when all of it is there: what fits in the first flight is one record; what is longer begins with
/// records of one packet each, until the way is likely to take more at once; then each is as large as TLS allows, which costs least. After a rest it
/// begins anew.
struct RecordSizes {
    private var sentBytes = 0

    /// With what TLS and TCP put around it, it fits in a packet of 1,500 bytes also over IPv6 and with time stamps.
    static let packetBytes = 1_380
    /// Ten packets (RFC 6928).
    static let flightBytes = 10 * packetBytes
    static let largestBytes = 16 << 10

    func next(of bytes: Int) -> Int {
        let isStarting = sentBytes < Self.flightBytes && sentBytes + bytes > Self.flightBytes
        return min(bytes, isStarting ? Self.packetBytes : Self.largestBytes)
    }

    mutating func sent(_ count: Int) { sentBytes = min(sentBytes + count, Self.flightBytes) }
}

/// Why a handshake has failed.
public enum HandshakeFailure: String, Sendable, CaseIterable {
    /// Not TLS as it should be.
    case malformed
    /// The client is gone.
    case ended
    /// The client speaks HTTP in clear: it gets 400.
    case clear
    /// No version, suite or group that both have.
    case parameters
    /// The client wants to speak something else than HTTP (ALPN).
    case `protocol`
    /// The client's certificate is missing, or not good.
    case certificate
    /// The client has ended it: mostly since it does not trust our certificate.
    case refused
    /// It has taken too long.
    case timeout
    /// Too many others began.
    case crowded

    fileprivate init(_ reason: Int32) {
        self =
            switch Int(reason) {
            case CTLS_FAILED_ENDED: .ended
            case CTLS_FAILED_CLEAR: .clear
            case CTLS_FAILED_PARAMETERS: .parameters
            case CTLS_FAILED_PROTOCOL: .protocol
            case CTLS_FAILED_CERTIFICATE: .certificate
            case CTLS_FAILED_REFUSED: .refused
            default: .malformed
            }
    }
}
