// Output that the kernel has not accepted yet: copied bytes, the rest of a body in its owner's memory, and a producer of content. Each
// part is optional.

import HTTPCore

/// The content of a complete response.
public enum WholeBody {
    case none
    case bytes([UInt8])
    /// Content in memory of `owner`, which is retained until the content is sent.
    case borrowed(UnsafeRawBufferPointer, owner: AnyObject)
    /// Content that is valid only during the call that sends it. Any part that is not sent immediately is copied.
    case passing(UnsafeRawBufferPointer)

    @inline(__always)
    public var count: Int {
        switch self {
        case .none: 0
        case .bytes(let bytes): bytes.count
        case .borrowed(let bytes, _), .passing(let bytes): bytes.count
        }
    }

    fileprivate var isPassing: Bool { if case .passing = self { true } else { false } }

    /// Returns a part of the content. Only arrays are copied.
    public func part(_ range: Range<Int>) -> WholeBody {
        switch self {
        case .none: .none
        case .bytes(let bytes): .bytes(Array(bytes[range]))
        case .borrowed(let bytes, let owner): .borrowed(UnsafeRawBufferPointer(rebasing: bytes[range]), owner: owner)
        case .passing(let bytes): .passing(UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
    }

    public func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        switch self {
        case .none: body(UnsafeRawBufferPointer(start: nil, count: 0))
        case .bytes(let bytes): bytes.withUnsafeBytes(body)
        case .borrowed(let bytes, _), .passing(let bytes): body(bytes)
        }
    }
}

/// Content that is produced while it is sent, so that each step needs limited time and memory.
public protocol ContentProducer: AnyObject {
    /// The input of the next piece, if it is in another object's memory; nil otherwise.
    var source: (bytes: UnsafeRawBufferPointer, owner: AnyObject)? { get }
    /// Total length in bytes; nil if unknown. Content of unknown length is sent chunked.
    var length: Int? { get }
    /// Produces the next piece off the event loop, and calls `then` on the loop. The caller must wait for `then` before the next call.
    func makeNext(then: @escaping @Sendable (ProducedPiece) -> Void)
    /// Memory that the producer holds, in bytes.
    var heldBytes: Int { get }
}

public enum ProducedPiece: Sendable {
    case bytes([UInt8])
    case end
    /// No more content can be produced. The client must detect that the response is incomplete.
    case broken
}

/// Output of one response or connection. Not copyable, because copies would need reference counting for all pieces.
struct OutputQueue: ~Copyable {
    /// Copied bytes in pieces, so that sent pieces can be released while more are appended.
    private var pieces: [[UInt8]] = []
    /// Index of the first piece that was not completely sent, and number of its bytes that were sent.
    private var first = 0
    private var sent = 0
    /// Bytes in the pieces from `first` on, and the part of them that was not sent.
    private var pieceBytes = 0
    private var unsentBytes: Int { pieceBytes - sent }
    private var tail = WholeBody.none
    private var tailSent = 0
    /// Produces content after all other output; nil if there is none.
    private var producer: (any ContentProducer)?
    /// Whether produced content is delimited by frames instead of chunks.
    private var isFramed = false
    /// The last sent piece if it is small, for reuse of its memory.
    private var spent: [UInt8]?
    /// Number of bytes that the kernel has accepted so far.
    private(set) var sentBytes = 0

    /// Maximum size of bodies that are copied. Copying these is cheaper than retaining their owner.
    private static let copyLimit = 64 * 1024
    static let spareBytes = 8 * 1024
    /// Maximum size of a piece before another one is begun.
    private static let pieceLimit = 64 * 1024
    /// Number of sent pieces that are removed from the array at once.
    private static let sweepCount = 64

    var isEmpty: Bool { unsentBytes == 0 && tailSent == tail.count && producer == nil }
    var count: Int { unsentBytes + tail.count - tailSent }

    /// Memory in bytes that is held only for this output.
    var heldBytes: Int {
        let made = producer?.heldBytes ?? 0
        if case .bytes(let rest) = tail { return made + pieceBytes + rest.count }
        return made + pieceBytes
    }

    /// Appends an array without a copy.
    mutating func append(piece: consuming [UInt8]) {
        if tail.count > 0 { settleTail() }
        guard !piece.isEmpty else { return }
        pieceBytes += piece.count
        pieces.append(piece)
    }

    mutating func append(_ more: UnsafeRawBufferPointer) {
        if tail.count > 0 { settleTail() }
        guard more.count > 0 else { return }
        if pieces.count > first, pieces[pieces.count - 1].count + more.count <= Self.pieceLimit {
            pieces[pieces.count - 1].append(contentsOf: more)
        } else {
            pieces.append(Array(more))
        }
        pieceBytes += more.count
    }

    /// Appends a body that is sent at the end of the batch of events, as far as the client accepts it by then.
    mutating func append(soon body: WholeBody) {
        if body.isPassing || tail.count > 0 { return append(body, from: 0) }
        (tail, tailSent) = (body, 0)
    }

    /// Appends `body` from `offset` on.
    mutating func append(_ body: WholeBody, from offset: Int) {
        guard offset < body.count else { return }
        if body.isPassing || body.count - offset <= Self.copyLimit {
            body.withBytes { append(UnsafeRawBufferPointer(rebasing: $0[offset...])) }
        } else {
            if tail.count > 0 { settleTail() }
            (tail, tailSent) = (body, offset)
        }
    }

    enum Outcome {
        /// All output that the kernel accepted was sent.
        case sent
        case broken
        /// The next part must be loaded from disk first.
        case onDisk(UnsafeRawBufferPointer, owner: AnyObject)
        /// The next part must be produced first (`append(made:)`).
        case unmade(any ContentProducer)
    }

    /// Start of the bytes that were loaded last. They are sent without a new check: if memory is scarce, the check might never succeed.
    var loadedPiece: UnsafeRawPointer?

    /// Maximum bytes of borrowed content that are checked and sent at once.
    private static let borrowedBytes = 1 << 20

    /// Sends as much as the kernel accepts.
    mutating func send(to transport: borrowing ClientTransport, _ memory: (any ContentMemory)? = nil) -> Outcome {
        while first < pieces.count {
            guard let count = pieces[first].withUnsafeBytes({ transport.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) })
            else { return .broken }
            sent += count
            sentBytes += count
            guard sent == pieces[first].count else { return .sent }
            dropFirst()
        }
        while tailSent < tail.count {
            var piece = tailSent..<tail.count
            if case .borrowed(let bytes, let owner) = tail, let memory {
                piece = tailSent..<min(tail.count, tailSent + Self.borrowedBytes)
                let next = UnsafeRawBufferPointer(rebasing: bytes[piece])
                guard next.baseAddress == loadedPiece || memory.isInMemory(next, of: owner) else { return .onDisk(next, owner: owner) }
            }
            guard let count = tail.withBytes({ transport.send(UnsafeRawBufferPointer(rebasing: $0[piece])) }) else { return .broken }
            tailSent += count
            sentBytes += count
            guard count == piece.count else { return .sent }
        }
        (tail, tailSent) = (.none, 0)
        guard let producer else { return .sent }
        if let memory, let (bytes, owner) = producer.source, bytes.baseAddress != loadedPiece, !memory.isInMemory(bytes, of: owner) {
            return .onDisk(bytes, owner: owner)
        }
        return .unmade(producer)
    }

    /// Returns the last sent piece; nil if it was large, or if none was sent since the last call.
    mutating func takeSpent() -> [UInt8]? {
        defer { spent = nil }
        return spent
    }

    private mutating func dropFirst() {
        pieceBytes -= pieces[first].count
        var piece: [UInt8] = []
        swap(&piece, &pieces[first])
        if piece.capacity <= Self.spareBytes { spent = piece }
        first += 1
        sent = 0
        guard first == pieces.count || first == Self.sweepCount else { return }
        if first == pieces.count { pieces.removeAll(keepingCapacity: true) } else { pieces.removeFirst(first) }
        first = 0
    }

    // MARK: Output in frames

    enum Offer {
        /// The number of bytes that can be taken now (`take`), and whether they are the last ones.
        case bytes(Int, isAll: Bool)
        case onDisk(UnsafeRawBufferPointer, owner: AnyObject)
        case unmade(any ContentProducer)
    }

    /// Returns what can be taken now, at most `limit` bytes.
    func offer(limit: Int, _ memory: (any ContentMemory)?) -> Offer {
        if unsentBytes > 0 { return offered(min(limit, unsentBytes)) }
        if tailSent < tail.count {
            let next = min(limit, tail.count - tailSent)
            // The beginning was in memory at the lookup, a moment ago.
            if tailSent > 0, case .borrowed(let bytes, let owner) = tail, let memory {
                let piece = UnsafeRawBufferPointer(rebasing: bytes[tailSent..<tailSent + next])
                guard piece.baseAddress == loadedPiece || memory.isInMemory(piece, of: owner) else {
                    let more = bytes[tailSent..<min(tail.count, tailSent + Self.borrowedBytes)]
                    return .onDisk(UnsafeRawBufferPointer(rebasing: more), owner: owner)
                }
            }
            return offered(next)
        }
        guard let producer else { return offered(0) }
        if let memory, let (bytes, owner) = producer.source, bytes.baseAddress != loadedPiece, !memory.isInMemory(bytes, of: owner) {
            return .onDisk(bytes, owner: owner)
        }
        return .unmade(producer)
    }

    private func offered(_ bytes: Int) -> Offer { .bytes(bytes, isAll: bytes == count && producer == nil) }

    /// Takes bytes that were offered, from the pieces or from the borrowed body.
    mutating func take(into buffer: UnsafeMutableRawBufferPointer) {
        sentBytes += buffer.count
        if first == pieces.count {
            tail.withBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[tailSent..<tailSent + buffer.count])) }
            tailSent += buffer.count
            if tailSent == tail.count { (tail, tailSent) = (.none, 0) }
            return
        }
        var filled = 0
        while filled < buffer.count {
            let taken = min(buffer.count - filled, pieces[first].count - sent)
            pieces[first].withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]).copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: $0[sent..<sent + taken]))
            }
            filled += taken
            sent += taken
            if sent == pieces[first].count { dropFirst() }
        }
        // Frames do not reuse the memory of sent pieces.
        spent = nil
    }

    mutating func append(framed producer: any ContentProducer) { (self.producer, isFramed) = (producer, true) }

    /// Appends a producer. No other output may follow its content.
    mutating func append(_ producer: any ContentProducer) { self.producer = producer }

    /// Appends the producer's next piece, as a chunk if the total length is unknown (RFC 9112 §7.1).
    mutating func append(made piece: [UInt8]) {
        guard producer?.length == nil, !isFramed else { return append(piece: piece) }
        var chunk: [UInt8] = []
        chunk.append(chunkSize: piece.count)
        chunk += piece
        chunk.append("\r\n")
        append(piece: chunk)
    }

    /// Ends the produced content.
    mutating func endProduced() {
        let isChunked = producer?.length == nil && !isFramed
        producer = nil
        if isChunked { ("0\r\n\r\n" as StaticString).withUTF8Buffer { append(UnsafeRawBufferPointer($0)) } }
    }

    /// Copies the borrowed body, because more output follows it. Rare: happens for pipelined responses only.
    private mutating func settleTail() {
        let rest = tail.withBytes { Array($0[tailSent...]) }
        (tail, tailSent) = (.none, 0)
        guard !rest.isEmpty else { return }
        pieces.append(rest)
        pieceBytes += rest.count
    }
}
