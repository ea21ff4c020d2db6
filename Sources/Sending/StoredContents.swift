// Provides stored content in the form in which it is sent. Converted content comes from memory, is converted at once if that is quick, or
// is converted off the event loop while it is sent.

import ContentCodings
import Downstream
import Figures
import HTTPCore
import Reactor
import ResponseCache

public enum OutgoingContent {
    case whole(WholeBody)
    /// With the length of the decoded content in bytes.
    case produced(ProducedContent, plainBytes: Int)
    /// The coding does not make the content shorter.
    case notWon
    /// The stored content is damaged, or memory is exhausted.
    case damaged

    /// Length in bytes; nil if unknown.
    var length: Int? {
        switch self {
        case .whole(let body): body.count
        case .produced(let content, _): content.length
        case .notWon, .damaged: nil
        }
    }
}

/// Used on its shard's loop only.
final class StoredContents {
    private let recoded: RecodedContents
    private let encoder = GzipEncoder()
    private var decoders: [ContentCoding: PieceDecoder] = [:]
    private lazy var quickDecoder = StoredGzipDecoder()
    private let coder: LoopWorker
    private var made = 0
    private var produced = 0
    /// Hashes of contents that were decoded recently, to detect repeated requests for one content.
    private var requested = RecentHashes(slots: 4_096)
    /// Whether long content is being decoded in order to be kept; one at a time.
    private var isDecoding = false
    /// Allocated when content is decoded for the first time.
    private var space: UnsafeMutableRawBufferPointer?

    private static let spaceBytes = 64 << 10
    /// Maximum bytes that are decoded, and compressed, at once: each takes less than a millisecond, even for incompressible content.
    private static let decodedAtOnceBytes = 256 << 10
    private static let codedAtOnceBytes = 32 << 10

    init(_ recoded: RecodedContents, _ coder: LoopWorker) { (self.recoded, self.coder) = (recoded, coder) }

    deinit { space?.deallocate() }

    func addFigures(to figures: inout Figures) {
        figures[.recodedMade] += made
        figures[.recodedOffLoop] += produced
    }

    /// Returns the possible form. Content compressed while it is sent needs chunked framing, which HTTP/1.0 does not have.
    func possible(_ form: SentForm, of found: FoundResponse, _ facts: SentFormFacts, takesChunks: Bool) -> SentForm {
        guard form == .gzipped, !takesChunks, found.contentBytes > Self.codedAtOnceBytes else { return form }
        return facts.coding == .identity ? .asStored : .decoded
    }

    /// Content without a coding.
    /// - Parameter range: range of the content; nil for all of it.
    func plain(_ found: FoundResponse, _ range: Range<Int>?) -> OutgoingContent {
        let stored = WholeBody.borrowed(found.content, owner: found.owner)
        guard found.coding != .identity else { return .whole(range.map { stored.part($0) } ?? stored) }
        let count = found.contentBytes
        let content: WholeBody
        if count <= Self.decodedAtOnceBytes {
            content = decoded(found)
        } else if let kept = recoded.find(plainName(found)) {
            content = kept
        } else {
            keepDecodedIfRepeated(found, stored)
            return produce(stored, found, range ?? 0..<count, isCoded: false)
        }
        guard content.count == count else { return .damaged }
        return .whole(range.map { content.part($0) } ?? content)
    }

    /// Content with gzip, which the stored content does not have.
    func gzipped(_ found: FoundResponse) -> OutgoingContent {
        let count = found.contentBytes
        guard count <= Self.codedAtOnceBytes else {
            return produce(.borrowed(found.content, owner: found.owner), found, 0..<count, isCoded: true)
        }
        let name = RecodedContents.Name(content: found.contentNumber, isCoded: true)
        if let content = recoded.find(name) { return content.count == 0 ? .notWon : .whole(content) }
        made += 1
        let plain = found.coding == .identity ? .borrowed(found.content, owner: found.owner) : decoded(found)
        let content = plain.withBytes { encoder.encode($0) } ?? []
        recoded.keep(name, .bytes(content))
        return content.isEmpty ? .notWon : .whole(.bytes(content))
    }

    /// Compresses content that came without a coding.
    func gzipped(_ content: [UInt8], takesChunks: Bool) -> OutgoingContent {
        guard content.count > Self.codedAtOnceBytes else {
            return content.withUnsafeBytes { encoder.encode($0) }.map { .whole(.bytes($0)) } ?? .notWon
        }
        guard takesChunks, let made = ProducedContent(.bytes(content), .identity, content.indices, isCoded: true, coder) else {
            return .notWon
        }
        return .produced(made, plainBytes: content.count)
    }

    /// Returns decoded content; its length differs if it is damaged. Content that is decoded for the first time is not kept. It is rarely
    /// requested again, and keeping it costs as much as decoding it.
    private func decoded(_ found: FoundResponse) -> WholeBody {
        let name = plainName(found)
        if let content = recoded.find(name) { return content }
        made += 1
        let count = found.contentBytes
        if count <= Self.spaceBytes, !wasRequested(found) {
            let whole = space ?? .allocate(byteCount: Self.spaceBytes, alignment: 16)
            space = whole
            let space = UnsafeMutableRawBufferPointer(rebasing: whole[..<count])
            return decode(found, filling: space) ? .passing(UnsafeRawBufferPointer(space)) : .none
        }
        let content = [UInt8](unsafeUninitializedCapacity: count) { space, made in
            made = decode(found, filling: UnsafeMutableRawBufferPointer(space)) ? count : 0
        }
        guard content.count == count else { return .none }
        recoded.keep(name, .bytes(content))
        return .bytes(content)
    }

    private func plainName(_ found: FoundResponse) -> RecodedContents.Name {
        RecodedContents.Name(content: found.contentNumber, isCoded: false)
    }

    /// Whether the content was requested recently. Records the request.
    private func wasRequested(_ found: FoundResponse) -> Bool { requested.hasCome(found.contentNumber &* 0x9e37_79b9_7f4a_7c15) }

    /// Decodes and keeps long content for later requests if it was requested before. The current client receives separately decoded pieces.
    private func keepDecodedIfRepeated(_ found: FoundResponse, _ stored: WholeBody) {
        let count = found.contentBytes
        guard recoded.mayKeep(count), wasRequested(found), !isDecoding, !coder.isFull,
            let content = ProducedContent(stored, found.coding, 0..<count, isCoded: false, coder)
        else { return }
        isDecoding = true
        let own = LoopBound(value: (self, plainName(found)))
        coder.perform(count) {
            content.decodedWhole()
        } then: { whole in
            let (contents, name) = own.value
            contents.isDecoding = false
            if let whole { contents.recoded.keep(name, .borrowed(whole.bytes, owner: whole)) }
        }
    }

    private func decode(_ found: FoundResponse, filling space: UnsafeMutableRawBufferPointer) -> Bool {
        if found.coding == .gzip, quickDecoder?.decode(found.content, filling: space) == true { return true }
        let kept = decoders.removeValue(forKey: found.coding).flatMap { $0.reset() ? $0 : nil }
        guard let decoder = kept ?? PieceDecoder(found.coding) else { return false }
        decoders[found.coding] = decoder
        return decoder.decode(found.content, filling: space)
    }

    private func produce(_ stored: WholeBody, _ found: FoundResponse, _ range: Range<Int>, isCoded: Bool) -> OutgoingContent {
        guard let content = ProducedContent(stored, found.coding, range, isCoded: isCoded, coder) else {
            return isCoded ? .notWon : .damaged
        }
        produced += 1
        return .produced(content, plainBytes: range.count)
    }
}
