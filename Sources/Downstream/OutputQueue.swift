// What the kernel has not taken yet of a response: bytes of our own, then perhaps the rest of a body that lies elsewhere and is kept alive by
// its owner instead of being copied.

import HTTPCore

/// The content of a response that is sent as a whole.
public enum WholeBody {
    case none
    case bytes([UInt8])
    /// Lies in `owner`'s memory, which stays as long as it is held.
    case borrowed(UnsafeRawBufferPointer, owner: AnyObject)
    /// Good during the call that sends it: what does not go out then is copied.
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

    /// A piece of a borrowed body, or a copy of a piece.
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

/// Content that is made while it is sent, so that neither the time nor the memory for all of it is taken at once.
public protocol ContentProducer: AnyObject {
    /// What the next piece is made of, where that lies in another's memory.
    var source: (bytes: UnsafeRawBufferPointer, owner: AnyObject)? { get }
    /// All of it, in bytes; nil where nobody knows: then it goes out in chunks.
    var length: Int? { get }
    /// Makes the next piece beside the loop, and calls `then` with it on the loop. Not asked again before that.
    func makeNext(then: @escaping @Sendable (ProducedPiece) -> Void)
    /// What it takes of memory.
    var heldBytes: Int { get }
}

public enum ProducedPiece: Sendable {
    case bytes([UInt8])
    case end
    /// No more can be made: nobody must take what there is for the whole.
    case broken
}

/// Never copied: each reading would count references to all that waits.
struct OutputQueue: ~Copyable {
    /// What is copied, in pieces, so that what has gone out takes no memory while more is appended.
    private var pieces: [[UInt8]] = []
    /// The first that has not gone out, and what of it has.
    private var first = 0
    private var sent = 0
    /// Of the pieces from the first on: bytes in them, and those of them that have not gone out.
    private var pieceBytes = 0
    private var unsentBytes: Int { pieceBytes - sent }
    private var tail = WholeBody.none
    private var tailSent = 0
    /// What follows everything else.
    private var producer: (any ContentProducer)?
    /// What the producer makes is framed by the protocol's frames, not as chunks.
    private var isFramed = false
    /// The piece that has gone out last, for its memory, where that is not much.
    private var spent: [UInt8]?
    /// All that the kernel has taken so far.
    private(set) var sentBytes = 0

    /// Bodies up to this size are copied: cheaper than keeping what they lie in.
    private static let copyLimit = 64 * 1024
    static let spareBytes = 8 * 1024
    /// More begins a new piece.
    private static let pieceLimit = 64 * 1024
    /// So many pieces that have gone out are taken out of the list at once.
    private static let sweepCount = 64

    var isEmpty: Bool { unsentBytes == 0 && tailSent == tail.count && producer == nil }
    var count: Int { unsentBytes + tail.count - tailSent }

    /// What it takes of memory that nobody else needs.
    var heldBytes: Int {
        let made = producer?.heldBytes ?? 0
        if case .bytes(let rest) = tail { return made + pieceBytes + rest.count }
        return made + pieceBytes
    }

    /// Takes over bytes as they are.
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

    /// A body that goes out at the end of the batch of events at the latest, as far as the client takes it.
    mutating func append(soon body: WholeBody) {
        if body.isPassing || tail.count > 0 { return append(body, from: 0) }
        (tail, tailSent) = (body, 0)
    }

    /// What is left of `body` from `offset` on.
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
        /// All that the kernel took.
        case sent
        case broken
        /// What comes next has to be read from the disk first.
        case onDisk(UnsafeRawBufferPointer, owner: AnyObject)
        /// What comes next has to be made first (`append(made:)`).
        case unmade(any ContentProducer)
    }

    /// Where what was brought in last begins: it is sent without asking again, or a memory so short that it is gone already would keep it for ever.
    var broughtIn: UnsafeRawPointer?

    /// Borrowed content is sent in pieces, of which each is known to be in memory.
    private static let borrowedBytes = 1 << 20

    /// Sends what the kernel takes.
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
                guard next.baseAddress == broughtIn || memory.isInMemory(next, of: owner) else { return .onDisk(next, owner: owner) }
            }
            guard let count = tail.withBytes({ transport.send(UnsafeRawBufferPointer(rebasing: $0[piece])) }) else { return .broken }
            tailSent += count
            sentBytes += count
            guard count == piece.count else { return .sent }
        }
        (tail, tailSent) = (.none, 0)
        guard let producer else { return .sent }
        if let memory, let (bytes, owner) = producer.source, bytes.baseAddress != broughtIn, !memory.isInMemory(bytes, of: owner) {
            return .onDisk(bytes, owner: owner)
        }
        return .unmade(producer)
    }

    /// The piece that has gone out last; nil where none has since this was asked, or where it was large.
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

    // MARK: Taken by frames

    enum Offer {
        /// So many bytes can be taken now (`take`); where all is true nothing follows them.
        case bytes(Int, isAll: Bool)
        case onDisk(UnsafeRawBufferPointer, owner: AnyObject)
        case unmade(any ContentProducer)
    }

    /// What can be taken now, at most so much.
    func offer(limit: Int, _ memory: (any ContentMemory)?) -> Offer {
        if unsentBytes > 0 { return offered(min(limit, unsentBytes)) }
        if tailSent < tail.count {
            let next = min(limit, tail.count - tailSent)
            // What has just been found is in memory.
            if tailSent > 0, case .borrowed(let bytes, let owner) = tail, let memory {
                let piece = UnsafeRawBufferPointer(rebasing: bytes[tailSent..<tailSent + next])
                guard piece.baseAddress == broughtIn || memory.isInMemory(piece, of: owner) else {
                    let more = bytes[tailSent..<min(tail.count, tailSent + Self.borrowedBytes)]
                    return .onDisk(UnsafeRawBufferPointer(rebasing: more), owner: owner)
                }
            }
            return offered(next)
        }
        guard let producer else { return offered(0) }
        if let memory, let (bytes, owner) = producer.source, bytes.baseAddress != broughtIn, !memory.isInMemory(bytes, of: owner) {
            return .onDisk(bytes, owner: owner)
        }
        return .unmade(producer)
    }

    private func offered(_ bytes: Int) -> Offer { .bytes(bytes, isAll: bytes == count && producer == nil) }

    /// Takes bytes that were offered: of the pieces, or of what lies elsewhere.
    mutating func take(into place: UnsafeMutableRawBufferPointer) {
        sentBytes += place.count
        if first == pieces.count {
            tail.withBytes { place.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[tailSent..<tailSent + place.count])) }
            tailSent += place.count
            if tailSent == tail.count { (tail, tailSent) = (.none, 0) }
            return
        }
        var filled = 0
        while filled < place.count {
            let taken = min(place.count - filled, pieces[first].count - sent)
            pieces[first].withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: place[filled...]).copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: $0[sent..<sent + taken]))
            }
            filled += taken
            sent += taken
            if sent == pieces[first].count { dropFirst() }
        }
        // Nobody asks for it here.
        spent = nil
    }

    mutating func append(framed producer: any ContentProducer) { (self.producer, isFramed) = (producer, true) }

    /// Nothing may follow it but what it makes.
    mutating func append(_ producer: any ContentProducer) { self.producer = producer }

    /// The producer's next piece, framed as a chunk (RFC 9112 §7.1) where nobody knows how long all of it is.
    mutating func append(made piece: [UInt8]) {
        guard producer?.length == nil, !isFramed else { return append(piece: piece) }
        var chunk: [UInt8] = []
        chunk.append(chunkSize: piece.count)
        chunk += piece
        chunk.append("\r\n")
        append(piece: chunk)
    }

    /// The producer has made all of it.
    mutating func endProduced() {
        let isChunked = producer?.length == nil && !isFramed
        producer = nil
        if isChunked { ("0\r\n\r\n" as StaticString).withUTF8Buffer { append(UnsafeRawBufferPointer($0)) } }
    }

    /// Something follows a tail: seldom (only pipelined responses), so the tail is copied.
    private mutating func settleTail() {
        let rest = tail.withBytes { Array($0[tailSent...]) }
        (tail, tailSent) = (.none, 0)
        guard !rest.isEmpty else { return }
        pieces.append(rest)
        pieceBytes += rest.count
    }
}
