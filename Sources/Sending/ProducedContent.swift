// Long stored content that is decoded or compressed while it is sent. Each piece is made off the event loop, after the client has taken the
// previous one.

import ContentCodings
import Downstream
import HTTPCore
import Reactor

/// `@unchecked Sendable` because only one thread at a time uses it. The loop passes it to the coder for each piece, and gets it back with
/// the result.
public final class ProducedContent: ContentProducer, @unchecked Sendable {
    private let body: WholeBody
    /// Removes the coding of the stored content; nil if it has none.
    private let decoder: PieceDecoder?
    /// Applies gzip; nil if the content is sent without a coding.
    private let encoder: GzipEncoder?
    /// The range of the decoded content to be sent.
    private let range: Range<Int>
    private let coder: LoopWorker
    /// Position in the decoded content.
    private var position = 0
    private var isEnded = false

    /// Size of a piece in bytes, which is processed in half a millisecond.
    static let pieceBytes = 64 << 10

    /// Returns nil if memory is exhausted.
    /// - Parameters:
    ///   - body: the stored content, with `coding`.
    ///   - range: range of the decoded content.
    ///   - isCoded: whether it is sent with gzip.
    public init?(_ body: WholeBody, _ coding: ContentCoding, _ range: Range<Int>, isCoded: Bool, _ coder: LoopWorker) {
        self.body = body
        self.coder = coder
        self.range = range
        decoder = PieceDecoder(coding)
        encoder = isCoded ? GzipEncoder() : nil
        guard encoder?.begin() ?? true, decoder != nil || coding == .identity else { return nil }
        if decoder == nil { position = range.lowerBound }
    }

    public var length: Int? { encoder == nil ? range.count : nil }

    public var heldBytes: Int {
        let own = if case .bytes(let bytes) = body { bytes.count } else { 0 }
        return own + (encoder == nil ? 0 : GzipEncoder.heldBytes) + (decoder == nil ? 0 : PieceDecoder.heldBytes)
    }

    public var source: (bytes: UnsafeRawBufferPointer, owner: AnyObject)? {
        guard case .borrowed(let bytes, let owner) = body else { return nil }
        let start = decoder?.taken ?? position
        return (UnsafeRawBufferPointer(rebasing: bytes[start..<min(bytes.count, start + Self.pieceBytes)]), owner)
    }

    public func makeNext(then: @escaping @Sendable (ProducedPiece) -> Void) {
        coder.perform(0, { self.next() }, then: then)
    }

    /// Returns the decoded content, for other clients; nil if it is damaged. Must be called off the event loop, instead of `makeNext`.
    func decodedWhole() -> DecodedContent? {
        let content = DecodedContent(count: range.count)
        let isWhole = decoder.map { decoder in body.withBytes { decoder.decode($0, filling: content.space) } }
        return isWhole == true ? content : nil
    }

    private func next() -> ProducedPiece {
        guard !isEnded else { return .end }
        guard let decoder else { return nextOfPlain() }
        let space = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceBytes, alignment: 1)
        defer { space.deallocate() }
        while true {
            guard let count = body.withBytes({ try? decoder.decode($0, into: space) }) else { return .broken }
            let wanted = range.clamped(to: position..<position + count)
            let start = position
            position += count
            isEnded = decoder.isEnded || position >= range.upperBound
            if isEnded, position < range.upperBound { return .broken }
            guard !wanted.isEmpty || isEnded else { continue }
            return finished(UnsafeRawBufferPointer(rebasing: space[(wanted.lowerBound - start)..<(wanted.upperBound - start)]))
        }
    }

    private func nextOfPlain() -> ProducedPiece {
        let piece = position..<min(range.upperBound, position + Self.pieceBytes)
        position = piece.upperBound
        isEnded = position == range.upperBound
        return body.withBytes { finished(UnsafeRawBufferPointer(rebasing: $0[piece])) }
    }

    private func finished(_ piece: UnsafeRawBufferPointer) -> ProducedPiece {
        guard let encoder else { return piece.isEmpty ? .end : .bytes(Array(piece)) }
        return .bytes(encoder.code(piece, isLast: isEnded))
    }
}

/// Decoded content in memory that several connections borrow. `@unchecked Sendable` because nothing changes it once it is decoded.
final class DecodedContent: @unchecked Sendable {
    fileprivate let space: UnsafeMutableRawBufferPointer

    fileprivate init(count: Int) { space = .allocate(byteCount: count, alignment: 16) }

    deinit { space.deallocate() }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(space) }
}
