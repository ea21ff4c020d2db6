// An upstream's response: a line that is refused in part is also refused as a whole. Its framing is unambiguous, a written head is parsed
// back with equal meaning, and the result does not depend on how the bytes are split.

@testable import HTTPCore

enum ResponseProperty {
    private static let limits = ResponseLimits()

    static func check(_ bytes: [UInt8]) throws(Violation) {
        for method in [Method.get, .head] {
            let whole = try Reading(bytes, to: method, cutAt: bytes.count)
            for cut in splits(of: bytes.count) {
                try expect(Reading(bytes, to: method, cutAt: cut) == whole, "a response in two pieces is parsed differently")
            }
        }
        guard let (head, framing) = try read(bytes) else { return }
        let fields = head.fields
        for index in 0..<fields.count {
            try expect(fields.name(at: index).allSatisfy(isTokenByte), "a field name is not a token")
            try expect(fields.value(at: index).allSatisfy(isFieldValueByte), "a field value contains a control character")
        }
        let lengths = fields.all(.contentLength)
        switch framing {
        case .byProtocol: try expect(head.status.forbidsContent, "a response with content has no framing")
        case .length(let count):
            try expect(!fields.contains(.transferEncoding), "a response with Transfer-Encoding is read by its length")
            try expect(lengths.allSatisfy { Int(String(decoding: $0, as: UTF8.self)) == count }, "two lengths differ")
        case .chunked: try expect(lengths.isEmpty, "a chunked response has a Content-Length")
        case .connectionEnd: try expect(lengths.isEmpty && !fields.contains(.transferEncoding), "the framing is ignored")
        case .tunnel: throw Violation(description: "an unrequested upgrade is accepted")
        }
        var text: [UInt8] = []
        ResponseSerializer.append(head, to: &text)
        guard let again = try read(text + [0x0d, 0x0a]) else {
            throw Violation(description: "an accepted head is rejected after serialization")
        }
        try expect(
            again.framing == framing && again.head.status == head.status && again.head.fields.isSame(as: fields),
            "a head is parsed differently after serialization")
    }

    /// Result of reading a response in two pieces. Whether bytes after its end are an error may depend on their time of arrival.
    private struct Reading: Equatable {
        private enum End { case none, whole, head, chunks }

        private var statuses: [Status] = []
        private var content: [UInt8] = []
        private var end = End.none

        init(_ bytes: [UInt8], to method: Method, cutAt cut: Int) throws(Violation) {
            var reader = ResponseReader(to: method, limits: limits)
            for piece in [bytes[..<cut], bytes[cut...]] where end == .none { try read(Array(piece), &reader) }
        }

        private mutating func read(_ piece: [UInt8], _ reader: inout ResponseReader) throws(Violation) {
            var position = 0
            while true {
                let before = position
                let event = reader.next(piece.span, &position)
                switch event {
                case .needsMore:
                    try expect(position == piece.count, "unread bytes remain")
                    return
                case .headLines: try expect(position > before, "no line was consumed")
                case .informational(let head), .final(let head): statuses.append(head.status)
                case .content(let range):
                    try expect(!range.isEmpty && range.upperBound <= position, "the content range is invalid")
                    content += piece[range]
                case .end, .refused(.surplus): end = .whole
                case .refused(.head): end = .head
                case .refused(.chunks): end = .chunks
                }
                if end != .none { return }
            }
        }
    }

    /// The final head; nil if there is none.
    private static func read(_ bytes: [UInt8]) throws(Violation) -> (head: ResponseHead, framing: ResponseHeadParser.Framing)? {
        var reader = ResponseHeadParser()
        var start = 0
        while let end = bytes[start...].firstIndex(of: 0x0a) {
            let line = bytes.span.extracting(start..<(end + 1))
            var problem: Int?
            for count in splits(of: line.count - 1) where problem == nil {
                if reader.problem(withPartOfLine: line.extracting(0..<count), limits: limits) != nil { problem = count }
            }
            start = end + 1
            let (event, count) = reader.take(line, limits: limits)
            try expect(count == line.count, "a line is accepted in part")
            switch event {
            case .refused: return nil
            case .final(let head, let framing): return (head, framing)
            case .more, .informational:
                try expect(problem == nil, "a line is taken whose first \(problem ?? 0) bytes are refused")
            }
        }
        return nil
    }
}

extension Fields {
    func isSame(as other: Fields) -> Bool {
        count == other.count && (0..<count).allSatisfy { name(at: $0) == other.name(at: $0) && value(at: $0) == other.value(at: $0) }
    }
}
