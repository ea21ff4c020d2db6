// The meaning of a request does not depend on how its bytes are split. A written head is parsed back with equal meaning, so that no server
// behind us can read it differently (request smuggling).

import HTTPCore

enum RequestProperty {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        var parser = RequestParser()
        let whole = Outcome(parser.parse(bytes.span, limits: RequestLimits()))
        for split in splits(of: bytes.count) { try checkSplit(bytes, at: split, whole) }
        guard case .head(let head) = whole else { return }
        try checkFields(head.request)
        try checkWrittenAgain(head)
        guard head.framing == .chunked else { return }
        let content = Array(bytes[head.consumed...])
        let decoded = Decoded(content, split: content.count)
        for split in splits(of: content.count) {
            try expect(Decoded(content, split: split) == decoded, "chunks split at \(split) are read in another way")
        }
    }

    private static func checkSplit(_ bytes: [UInt8], at split: Int, _ whole: Outcome) throws(Violation) {
        var parser = RequestParser()
        let first = Outcome(parser.parse(bytes.span.extracting(0..<split), limits: RequestLimits()))
        switch first {
        case .needsMore:
            let second = Outcome(parser.parse(bytes.span, limits: RequestLimits()))
            try expect(second == whole, "a head split at \(split) is read as \(second), whole as \(whole)")
        case .refused: try expect(!whole.isHead, "its first \(split) bytes are refused, and the whole is taken")
        case .head: try expect(first == whole, "its first \(split) bytes are read as \(first), and the whole as \(whole)")
        }
    }

    private static func checkFields(_ request: RequestHead) throws(Violation) {
        try expect(request.target.allSatisfy { $0 > 0x20 && $0 < 0x7f }, "the target contains a control character or a space")
        for index in 0..<request.fields.count {
            let (name, value) = (request.fields.name(at: index), request.fields.value(at: index))
            try expect(!name.isEmpty && name.allSatisfy(isTokenByte), "a field name is not a token")
            try expect(value.allSatisfy(isFieldValueByte), "a field value contains a control character")
        }
    }

    private static func checkWrittenAgain(_ head: Outcome.Head) throws(Violation) {
        let request = head.request
        let version: StaticString = request.version == .http10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n"
        var text = request.method.bytes + [0x20] + request.target + [UInt8](version)
        for index in 0..<request.fields.count {
            text += request.fields.name(at: index) + [0x3a, 0x20] + request.fields.value(at: index) + [0x0d, 0x0a]
        }
        text += [0x0d, 0x0a]
        // Missing white space before a value may become one space.
        guard text.count <= RequestLimits().headBytes else { return }
        var parser = RequestParser()
        guard case .head(let again) = Outcome(parser.parse(text.span, limits: RequestLimits())) else {
            throw Violation(description: "an accepted head is rejected after serialization")
        }
        try expect(again.hasSameMeaning(as: head) && again.consumed == text.count, "a head is parsed differently after serialization")
    }
}

/// A result in comparable form.
private enum Outcome: Equatable {
    struct Head: Equatable {
        let request: RequestHead
        let framing: ContentFraming
        let consumed: Int

        func hasSameMeaning(as other: Head) -> Bool {
            let (own, fields) = (request.fields, other.request.fields)
            return request.method == other.request.method && request.target == other.request.target
                && request.version == other.request.version && framing == other.framing && own.count == fields.count
                && (0..<own.count).allSatisfy { own.name(at: $0) == fields.name(at: $0) && own.value(at: $0) == fields.value(at: $0) }
        }

        static func == (left: Head, right: Head) -> Bool { left.hasSameMeaning(as: right) && left.consumed == right.consumed }
    }

    case needsMore
    case head(Head)
    case refused(RequestRejection)

    init(_ result: RequestParseResult) {
        switch result {
        case .needsMore: self = .needsMore
        case .head(let request, let framing, let consumed):
            self = .head(Head(request: request, framing: framing, consumed: consumed))
        case .refused(let rejection): self = .refused(rejection)
        }
    }

    var isHead: Bool { if case .head = self { true } else { false } }
}

/// Decoded chunks, fed in two pieces.
private struct Decoded: Equatable {
    var content: [UInt8] = []
    var end: Int?
    var rejection: RequestRejection?

    init(_ bytes: [UInt8], split: Int) {
        var decoder = ChunkedDecoder()
        for piece in [0..<split, split..<bytes.count] where end == nil && rejection == nil { take(bytes, piece, &decoder) }
    }

    private mutating func take(_ bytes: [UInt8], _ piece: Range<Int>, _ decoder: inout ChunkedDecoder) {
        let span = bytes.span.extracting(piece)
        var position = 0
        while true {
            switch decoder.next(span, &position) {
            case .content(let range): content += bytes[piece][(piece.lowerBound + range.lowerBound)..<(piece.lowerBound + range.upperBound)]
            case .needsMore: return
            case .end(let consumed):
                end = piece.lowerBound + consumed
                return
            case .refused(let problem):
                rejection = problem.rejection
                return
            }
        }
    }
}
