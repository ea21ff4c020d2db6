// Reads one response as its bytes arrive (RFC 9112 §6): informational heads, the final head, and the content without its transfer coding. A
// length, the last chunk or the end of the connection proves the end. Also reports bytes after the end. No I/O.

/// Not copyable, so that calls do not count references to its parts.
public struct ResponseReader: ~Copyable, Sendable {
    public enum Event: Sendable {
        /// All bytes were consumed; more are needed.
        case needsMore
        /// Complete lines of a head were consumed; the head is not complete yet.
        case headLines
        case informational(ResponseHead)
        case final(ResponseHead)
        /// Content at this range of the given bytes.
        case content(Range<Int>)
        /// The response is complete.
        /// - Parameter hasSurplus: bytes follow that belong to no response. The connection must not be reused.
        case end(hasSurplus: Bool)
        /// The response is invalid, and reading stops.
        case refused(Refusal)
    }

    /// Why a response is rejected.
    public enum Refusal: Error, Sendable, Equatable {
        case head(ResponseProblem)
        case chunks(ChunkProblem)
        /// Bytes follow the last chunk, or follow the announced length on a persistent connection, so the position of the end may be
        /// wrong.
        case surplus
    }

    /// What the end of the connection means for the response.
    public enum Ending: Sendable, Equatable {
        /// The response is complete; the end of the connection delimits it.
        case whole
        /// No byte of the response was received.
        case nothing
        case incomplete
    }

    fileprivate enum State: Sendable {
        case nothing
        case head
        case withoutContent
        /// Number of bytes left.
        case length(Int)
        case chunked(ChunkedDecoder)
        case untilEnd
        /// Another protocol, which has separate rules for its end.
        case tunnel
        case ended
    }

    private let limits: ResponseLimits
    private let isToHEAD: Bool
    private var state = State.nothing
    private var head = ResponseHeadParser()
    /// Start of an incomplete line. The limit of the head bounds its length.
    private var line: [UInt8] = []

    /// - Parameters:
    ///   - method: method of the request.
    ///   - mayUpgrade: whether the request offered to change the protocol.
    public init(to method: Method, mayUpgrade: Bool = false, limits: ResponseLimits) {
        isToHEAD = method == .head
        self.limits = limits
        head.mayUpgrade = mayUpgrade
    }

    /// True if any byte was received.
    public var hasBegun: Bool { if case .nothing = state { false } else { true } }

    /// True if the next bytes are content, or frame it.
    public var isInContent: Bool {
        switch state {
        case .length(let left): left > 0
        case .chunked, .untilEnd, .tunnel: true
        case .nothing, .head, .withoutContent, .ended: false
        }
    }

    /// True if the next bytes belong to another protocol.
    public var isTunnel: Bool { if case .tunnel = state { true } else { false } }

    /// Whether the connection may be reused after this response (RFC 9112 §9.3). Valid after the final head.
    public var isPersistent: Bool { head.isPersistent }

    /// The upstream's keep-alive timeout in milliseconds; nil if it gives none. Valid after the final head.
    public var keepAlive: Int64? { head.keepAlive }

    /// Returns the next event in `bytes` from `position` on, and advances `position` past the consumed bytes. Call it until it needs more
    /// bytes or the response has ended.
    public mutating func next(_ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        switch state {
        case .nothing, .head: return nextOfHead(bytes, &position)
        case .withoutContent: return end(hasSurplus: position < bytes.count)
        case .length(0):
            guard position < bytes.count, isPersistent else { return end(hasSurplus: position < bytes.count) }
            return refuse(.surplus)
        case .length(let left):
            let count = min(left, bytes.count - position)
            state = .length(left - count)
            return content(count, &position)
        case .chunked(let chunks): return nextOfChunks(chunks, bytes, &position)
        case .untilEnd, .tunnel: return content(bytes.count - position, &position)
        // The response has ended; further bytes are surplus.
        case .ended: return position < bytes.count ? .refused(.surplus) : .needsMore
        }
    }

    /// - Parameter isClean: whether the peer closed the connection in an orderly way.
    public func atConnectionEnd(isClean: Bool) -> Ending {
        switch state {
        case .nothing: .nothing
        case .untilEnd where isClean: .whole
        case .tunnel: .whole
        case .head, .withoutContent, .length, .chunked, .untilEnd, .ended: .incomplete
        }
    }

    // MARK: Head

    private mutating func nextOfHead(_ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        guard position < bytes.count else { return .needsMore }
        state = .head
        guard line.isEmpty else { return resumeLine(bytes, &position) }
        let (event, count) = head.take(bytes.extracting(position...), limits: limits)
        position += count
        return count > 0 ? take(event) : hold(bytes, &position)
    }

    private mutating func resumeLine(_ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        for index in position..<bytes.count where bytes[index] == 0x0a {
            line.append(copying: bytes.extracting(position...index))
            position = index + 1
            let whole = line
            line = []
            return take(head.take(whole.span, limits: limits).event)
        }
        return hold(bytes, &position)
    }

    /// Stores an incomplete line. Rejects a line that cannot become part of a head.
    private mutating func hold(_ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        line.append(copying: bytes.extracting(position...))
        position = bytes.count
        return head.problem(withPartOfLine: line.span, limits: limits).map { refuse(.head($0)) } ?? .needsMore
    }

    private mutating func take(_ event: consuming ResponseHeadParser.Event) -> Event {
        switch event {
        case .more: return .headLines
        case .informational(let head): return .informational(head)
        case .refused(let problem): return refuse(.head(problem))
        case .final(let head, let framing):
            state = isToHEAD ? .withoutContent : State(framing)
            return .final(head)
        }
    }

    // MARK: Content

    private func content(_ count: Int, _ position: inout Int) -> Event {
        guard count > 0 else { return .needsMore }
        position += count
        return .content(position - count..<position)
    }

    private mutating func nextOfChunks(_ chunks: ChunkedDecoder, _ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        var chunks = chunks
        let event = chunks.next(bytes, &position)
        state = .chunked(chunks)
        switch event {
        case .content(let range): return .content(range)
        case .needsMore: return .needsMore
        case .end: return position < bytes.count ? refuse(.surplus) : end(hasSurplus: false)
        case .refused(let problem): return refuse(.chunks(problem))
        }
    }

    // MARK: Ends

    private mutating func end(hasSurplus: Bool) -> Event {
        state = .ended
        return .end(hasSurplus: hasSurplus)
    }

    private mutating func refuse(_ refusal: Refusal) -> Event {
        state = .ended
        return .refused(refusal)
    }
}

extension ResponseReader.State {
    fileprivate init(_ framing: ResponseHeadParser.Framing) {
        self =
            switch framing {
            case .byProtocol: .withoutContent
            case .length(let count): .length(count)
            case .chunked: .chunked(ChunkedDecoder(allowsPadding: true))
            case .connectionEnd: .untilEnd
            case .tunnel: .tunnel
            }
    }
}
