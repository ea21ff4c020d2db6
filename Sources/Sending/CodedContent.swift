// Puts the gzip coding on long stored content while it is sent: a piece at a time, beside the loop, when the client has taken the one before.

import ContentCodings
import Downstream
import Reactor

/// `@unchecked Sendable` because one at a time touches it: the loop hands it to the coder for each piece, and has it back with what was made.
package final class CodedContent: ContentProducer, @unchecked Sendable {
    private let body: WholeBody
    private let encoder = GzipEncoder()
    private let coder: LoopWorker
    private var position = 0
    private var isEnded = false

    /// Coded in half a millisecond.
    static let pieceBytes = 64 << 10

    /// nil where there is no memory.
    init?(_ body: WholeBody, _ coder: LoopWorker) {
        self.body = body
        self.coder = coder
        guard encoder.begin() else { return nil }
    }

    package var heldBytes: Int { GzipEncoder.heldBytes }

    private var piece: Range<Int> { position..<min(body.count, position + Self.pieceBytes) }

    package var source: (bytes: UnsafeRawBufferPointer, owner: AnyObject)? {
        guard case .borrowed(let bytes, let owner) = body else { return nil }
        return (UnsafeRawBufferPointer(rebasing: bytes[piece]), owner)
    }

    package func makeNext(then: @escaping @Sendable ([UInt8]?) -> Void) {
        // What it goes through lies in the store.
        coder.perform(0) {
            self.next()
        } then: { piece in
            then(piece)
        }
    }

    private func next() -> [UInt8]? {
        guard !isEnded else { return nil }
        let piece = piece
        isEnded = piece.upperBound == body.count
        position = piece.upperBound
        return body.withBytes { encoder.code(UnsafeRawBufferPointer(rebasing: $0[piece]), isLast: isEnded) }
    }
}
