// Long stored content in another form than it lies in the store: a piece at a time, beside the loop, when the client has taken the one before.

import ContentCodings
import Downstream
import HTTPCore
import Reactor

/// `@unchecked Sendable` because one at a time touches it: the loop hands it to the coder for each piece, and has it back with what was made.
public final class ProducedContent: ContentProducer, @unchecked Sendable {
    private let body: WholeBody
    /// Takes off the coding that it has.
    private let decoder: PieceDecoder?
    /// Puts gzip on.
    private let encoder: GzipEncoder?
    /// What of the content without its coding goes out.
    private let range: Range<Int>
    private let coder: LoopWorker
    /// Of the content without its coding.
    private var position = 0
    private var isEnded = false

    /// Coded in half a millisecond.
    static let pieceBytes = 64 << 10

    /// nil where there is no memory.
    /// - Parameters:
    ///   - body: as it lies in the store, with `coding`.
    ///   - range: of the content without it.
    ///   - isCoded: it goes out with gzip.
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
