// Decodes the chunked transfer coding (RFC 9112 §7.1) as it arrives, in pieces of any size. Strict: sizes consist of hexadecimal digits
// only, and every line ends in CRLF. Extensions and trailers are limited in size and discarded. Blanks after a size count as extensions.

public struct ChunkedDecoder: Sendable {
    public enum Event: Sendable, Equatable {
        /// Content at this range of the given bytes.
        case content(Range<Int>)
        /// All given bytes were consumed; more are needed.
        case needsMore
        /// The content is complete; `consumed` of the given bytes belonged to it.
        case end(consumed: Int)
        case refused(ChunkProblem)
    }

    private enum State: Sendable, Equatable {
        case sizeStart, size, blanks, extensions, quoted, quotedEscape, sizeLF, data, dataCR, dataLF
        case trailerStart, trailerName, trailerValue, trailerLF, endLF, ended
    }

    /// Maximum size of chunk extensions and of trailers in one message, in bytes. Both cost time without carrying content.
    private static let extensionLimit = 16_384
    private static let trailerLimit = 8_192

    /// Whether a size may have blanks after it without an extension.
    private let allowsPadding: Bool
    private var state = State.sizeStart
    private var remaining = 0
    private var digits = 0
    private var extensionBytes = 0
    private var trailerBytes = 0

    public init(allowsPadding: Bool = false) { self.allowsPadding = allowsPadding }

    /// Returns the next event in `bytes` from `position` on, and advances `position` past the consumed bytes.
    public mutating func next(_ bytes: Span<UInt8>, _ position: inout Int) -> Event {
        while position < bytes.count {
            if state == .data {
                let start = position
                let count = min(remaining, bytes.count - start)
                position += count
                remaining -= count
                if remaining == 0 { state = .dataCR }
                return .content(start..<start + count)
            }
            let byte = bytes[position]
            position += 1
            do throws(ChunkProblem) {
                try step(byte)
            } catch {
                return .refused(error)
            }
            if state == .ended { return .end(consumed: position) }
        }
        return .needsMore
    }

    private mutating func step(_ byte: UInt8) throws(ChunkProblem) {
        switch state {
        case .sizeStart, .size: try stepSize(byte)
        case .blanks, .extensions, .quoted, .quotedEscape: try stepExtension(byte)
        case .sizeLF:
            try expect(byte, 0x0a)
            state = remaining == 0 ? .trailerStart : .data
        case .dataCR:
            try expect(byte, 0x0d)
            state = .dataLF
        case .dataLF:
            try expect(byte, 0x0a)
            state = .sizeStart
            digits = 0
        case .trailerStart, .trailerName, .trailerValue, .trailerLF: try stepTrailer(byte)
        case .endLF:
            try expect(byte, 0x0a)
            state = .ended
        case .data, .ended: preconditionFailure("content must not be processed byte by byte")
        }
    }

    private mutating func stepSize(_ byte: UInt8) throws(ChunkProblem) {
        if let digit = byte.hexValue {
            digits += 1
            guard digits <= 15 else { throw .sizeTooLarge }
            remaining = remaining << 4 | Int(digit)
            state = .size
        } else if state == .size, byte == 0x0d {
            state = .sizeLF
        } else if state == .size, byte == 0x3b || byte.isOptionalWhitespace {
            state = byte == 0x3b ? .extensions : .blanks
        } else {
            throw .size
        }
    }

    private mutating func stepExtension(_ byte: UInt8) throws(ChunkProblem) {
        extensionBytes += 1
        guard extensionBytes <= Self.extensionLimit else { throw .extensionsTooLarge }
        switch (state, byte) {
        // RFC 9112 §7.1.1: a recipient accepts blanks around the semicolon.
        case (.blanks, _) where byte.isOptionalWhitespace: break
        case (.blanks, 0x3b): state = .extensions
        case (.blanks, 0x0d) where allowsPadding: state = .sizeLF
        case (.blanks, _): throw .size
        case (.quotedEscape, _) where isFieldValueByte(byte): state = .quoted
        case (.quoted, 0x22): state = .extensions
        case (.quoted, 0x5c): state = .quotedEscape
        case (.quoted, _) where isFieldValueByte(byte): break
        case (.extensions, 0x22): state = .quoted
        case (.extensions, 0x0d): state = .sizeLF
        case (.extensions, _) where isTokenByte(byte) || byte == 0x3d || byte == 0x3b || byte.isOptionalWhitespace: break
        default: throw .malformedExtension
        }
    }

    private mutating func stepTrailer(_ byte: UInt8) throws(ChunkProblem) {
        trailerBytes += 1
        guard trailerBytes <= Self.trailerLimit else { throw .trailersTooLarge }
        switch (state, byte) {
        case (.trailerStart, 0x0d): state = .endLF
        case (.trailerStart, _) where isTokenByte(byte), (.trailerName, _) where isTokenByte(byte): state = .trailerName
        case (.trailerName, 0x3a): state = .trailerValue
        case (.trailerValue, 0x0d): state = .trailerLF
        case (.trailerValue, _) where isFieldValueByte(byte): break
        case (.trailerLF, 0x0a): state = .trailerStart
        default: throw .trailerLine
        }
    }

    private func expect(_ byte: UInt8, _ wanted: UInt8) throws(ChunkProblem) {
        guard byte == wanted else { throw .lineEnd }
    }
}
