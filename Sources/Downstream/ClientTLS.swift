// TLS on a client's socket, which this class uses and does not own. It reads and writes records, chooses their sizes, and releases buffers
// of idle connections.

import CTLS
import Figures

final class ClientTLS {
    /// The connection of the C library; nil after it was closed.
    private var pointer: OpaquePointer?
    /// Retained because `pointer` uses it.
    private let tickets: TicketKeys

    /// Number of offered bytes that belong to a record that the kernel has accepted only in part.
    private var begunBytes = 0
    private var records = RecordSizes()
    /// Whether decrypted or buffered input may exist that the kernel does not report.
    private(set) var holdsInput = false
    /// Whether TLS must write before it can read more.
    private(set) var readWaitsForWrite = false
    private var isUsed = true
    private var hasBuffers = true

    /// Maximum bytes encrypted in one turn, about 0.5 ms, so that other connections are served.
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
        /// The caller must call `choose` before the next step.
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

    /// Selects the certificate and the rules for the handshake.
    /// - Returns: false if memory is exhausted.
    func choose(_ context: TLSContext, _ verification: ClientVerification, for listener: ListenerSettings) -> Bool {
        guard let pointer else { return false }
        let name = Array(listener.address.description.utf8)
        return name.withCTLSBytes {
            ctls_accept_choose(pointer, context.pointer, verification.number, $0, listener.offersHTTP2 ? 1 : 0) != 0
        }
    }

    /// Whether the client accepts keys that sign with this scheme (RFC 8446 §4.2.3). Only valid before the choice.
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
                // An end of input that arrived together with content is reported by the next call, for which the kernel sends no event.
                holdsInput = taken > 0 && count != CTLS_WANTS_READ && count != CTLS_WANTS_WRITE
                if taken > 0 { return .bytes(taken) }
                switch count {
                case CTLS_WANTS_READ, CTLS_WANTS_WRITE: return .nothing
                case CTLS_CLOSED: return .ended
                // Many clients close the connection without close_notify. The HTTP framing shows whether content is missing.
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
                // Writing never needs a read first, because renegotiation is not supported.
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

    // MARK: Idle periods and end

    /// Called periodically while no request is active. Releases the buffers of an idle connection.
    func rest() {
        guard !isUsed, hasBuffers, !holdsInput, begunBytes == 0, let pointer else {
            isUsed = false
            return
        }
        records = RecordSizes()
        ctls_free_buffers(pointer)
        hasBuffers = false
    }

    /// Sends close_notify.
    /// - Returns: false if the kernel's buffer is too full for it. The caller must then call again.
    func endSending() -> Bool { pointer.map { ctls_end_sending($0) == 0 } ?? true }

    /// Suppresses close_notify, so that the client does not regard truncated content as complete.
    func spoil() {
        if let pointer { ctls_spoil(pointer) }
    }

    /// Sends close_notify if possible without waiting. Must be called before the descriptor is closed.
    func close() {
        guard let pointer else { return }
        self.pointer = nil
        ctls_close(pointer)
    }
}

/// Chooses the sizes of TLS records. A client can use a record only when all of it has arrived. Output that fits in the first flight is
/// one record. Longer output begins with records of one packet each; after the first flight, records have the maximum size, which is the
/// most efficient. The sequence restarts after an idle period.
struct RecordSizes {
    private var sentBytes = 0

    /// Maximum content of a record that fits, with the overhead of TLS and TCP, in a packet of 1,500 bytes over IPv6 with timestamps.
    static let packetBytes = 1_380
    /// Bytes of the first flight: ten packets (RFC 6928).
    static let flightBytes = 10 * packetBytes
    static let largestBytes = 16 << 10

    func next(of bytes: Int) -> Int {
        let isStarting = sentBytes < Self.flightBytes && sentBytes + bytes > Self.flightBytes
        return min(bytes, isStarting ? Self.packetBytes : Self.largestBytes)
    }

    mutating func sent(_ count: Int) { sentBytes = min(sentBytes + count, Self.flightBytes) }
}

extension HandshakeFailure {
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
