// Puts the gzip coding on long stored content while it is sent: a piece a turn of the loop.

import ContentCodings
import Downstream

final class CodedContent: ContentProducer {
    private let body: WholeBody
    private let encoder = GzipEncoder()
    private var position = 0
    private var isEnded = false

    /// Coded in half a millisecond.
    static let pieceBytes = 64 << 10

    /// nil where there is no memory.
    init?(_ body: WholeBody) {
        self.body = body
        guard encoder.begin() else { return nil }
    }

    var heldBytes: Int { GzipEncoder.heldBytes }

    private var piece: Range<Int> { position..<min(body.count, position + Self.pieceBytes) }

    var source: (bytes: UnsafeRawBufferPointer, owner: AnyObject)? {
        guard case .borrowed(let bytes, let owner) = body else { return nil }
        return (UnsafeRawBufferPointer(rebasing: bytes[piece]), owner)
    }

    func next() -> [UInt8]? {
        guard !isEnded else { return nil }
        let piece = piece
        isEnded = piece.upperBound == body.count
        position = piece.upperBound
        return body.withBytes { encoder.code(UnsafeRawBufferPointer(rebasing: $0[piece]), isLast: isEnded) }
    }
}
