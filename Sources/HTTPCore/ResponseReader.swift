// Reads one response as its bytes come (RFC 9112 §6): informational heads, the final head, the content without its transfer coding, and the end, which
// a length, the last chunk or the connection's end proves. It also says whether a response still stands that more bytes follow. No I/O.

/// Not copyable, so that asking it costs no references to its parts.
public struct ResponseReader: ~Copyable, Sendable {
    public enum Event: Sendable {
        /// All bytes given were taken; more are needed.
        case needsMore
        /// Whole lines of a head were taken; its end has not come.
        case headLines
        case informational(ResponseHead)
        case final(ResponseHead)
        /// Content at this range of the bytes given.
        case content(Range<Int>)
        /// The response is whole.
        /// - Parameter hasSurplus: bytes follow that belong to no response. The connection cannot be used again.
        case end(hasSurplus: Bool)
        /// Nothing more is read.
        case refused(Refusal)
    }

    /// Why a response is not used.
    public enum Refusal: Error, Sendable, Equatable {
        case head(ResponseProblem)
        case chunks(ChunkProblem)
        /// Bytes follow the end that the last chunk marks, or a length on a connection that goes on: so the end may be wrong.
        case surplus
    }

    /// What the connection's end means for the response.
    public enum Ending: Sendable, Equatable {
        /// It had no other end.
        case whole
        /// No byte of it has come.
        case nothing
        case incomplete
    }

    fileprivate enum State: Sendable {
        case nothing
        case head
        case withoutContent
        /// So many bytes are left.
        case length(Int)
        case chunked(ChunkedDecoder)
        case untilEnd
        /// Another protocol, whose end is its own matter.
        case tunnel
        case ended
    }

    private let limits: ResponseLimits
    private let isToHEAD: Bool
    private var state = State.nothing
    private var head = ResponseHeadParser()
    /// The beginning of a line whose end has not come: the head's limit bounds it.
    private var line: [UInt8] = []

    /// - Parameters:
    ///   - method: the request's.
    ///   - mayUpgrade: whether it offered to change to another protocol.
    public init(to method: Method, mayUpgrade: Bool = false, limits: ResponseLimits) {
        isToHEAD = method == .head
        self.limits = limits
        head.mayUpgrade = mayUpgrade
    }

    /// Whether any byte has come.
    public var hasBegun: Bool { if case .nothing = state { false } else { true } }

    /// Whether the next bytes are content, or frame it.
    public var isInContent: Bool {
        switch state {
        case .length(let left): left > 0
        case .chunked, .untilEnd, .tunnel: true
        case .nothing, .head, .withoutContent, .ended: false
        }
    }

    /// Whether what comes is another protocol.
    public var isTunnel: Bool { if case .tunnel = state { true } else { false } }

    /// Whether the connection may go on after this response (RFC 9112 §9.3). Known with the final head.
    public var isPersistent: Bool { head.isPersistent }

    /// How long the upstream says that it keeps the connection, in milliseconds. Known with the final head; nil where it says nothing.
    public var keepAlive: Int64? { head.keepAlive }

    /// The next event in `bytes` from `position` on; `position` moves behind what was taken. To be called until it needs more, or has ended.
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
        // Nobody asks for more; what comes would be no part of it.
        case .ended: return position < bytes.count ? .refused(.surplus) : .needsMore
        }
    }

    /// - Parameter isClean: the peer said that it sends no more.
    public func atConnectionEnd(isClean: Bool) -> Ending {
        switch state {
        case .nothing: .nothing
        case .untilEnd where isClean: .whole
        case .tunnel: .whole
        case .head, .withoutContent, .length, .chunked, .untilEnd, .ended: .incomplete
        }
    }

    // MARK: The head

    private mutating func nextOfHead(_ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        guard position < bytes.count else { return .needsMore }
        state = .head
        guard line.isEmpty else { return goOnWithLine(bytes, &position) }
        let (event, count) = head.take(bytes.extracting(position...), limits: limits)
        position += count
        return count > 0 ? take(event) : hold(bytes, &position)
    }

    private mutating func goOnWithLine(_ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        for index in position..<bytes.count where bytes[index] == 0x0a {
            line.append(copying: bytes.extracting(position...index))
            position = index + 1
            let whole = line
            line = []
            return take(head.take(whole.span, limits: limits).event)
        }
        return hold(bytes, &position)
    }

    /// The line has no end yet. What no end could make one of a head is not waited for.
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

    // MARK: The content

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
            case .chunked: .chunked(ChunkedDecoder())
            case .connectionEnd: .untilEnd
            case .tunnel: .tunnel
            }
    }
}
