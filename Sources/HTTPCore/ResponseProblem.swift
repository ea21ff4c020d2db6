// Problems in the bytes of a response, with one text for HTTP/1.1 and HTTP/2. The list is fixed, so passing a problem along allocates
// nothing. The text never quotes the response, which may contain secrets.

public enum ResponseProblem: UInt8, Error, Sendable, CaseIterable {
    // Problems of the status line.
    case notHTTP, replyCode, tlsRecord, http2Frame
    case version, statusLine
    // Problems of field lines.
    case noColon, fieldName, fieldValue, foldedLine
    case tooManyFields, headTooLong
    // Problems of framing.
    case contentLength, contentLengthsDiffer, lengthAndCoding
    case unknownCoding, codingInHTTP10, emptyCoding
    case informationalFlood, unaskedSwitch
    // Problems of HTTP/2 only.
    case http1Response, pseudoField, connectionField, secondHead, endedBeforeHead
    case contentTooLong, contentTooShort, unaskedContent
    // Problems of bytes before or after the response.
    case surplus, earlyBytes

    public enum Kind: Sendable {
        case malformed, tooLarge
        /// RFC 9112 §6.1: an unsolicited or invalid transfer coding.
        case transferCoding
        /// The response ended too early.
        case incomplete
    }

    public var kind: Kind {
        switch self {
        case .tooManyFields, .headTooLong: .tooLarge
        case .unknownCoding, .codingInHTTP10, .emptyCoding: .transferCoding
        case .contentTooShort: .incomplete
        case .notHTTP, .replyCode, .tlsRecord, .http2Frame, .version, .statusLine, .noColon, .fieldName, .fieldValue, .foldedLine,
            .contentLength, .contentLengthsDiffer, .lengthAndCoding, .informationalFlood, .unaskedSwitch, .http1Response, .pseudoField,
            .connectionField, .secondHead, .endedBeforeHead, .contentTooLong, .unaskedContent, .surplus, .earlyBytes:
            .malformed
        }
    }

    public var words: String {
        switch self {
        case .notHTTP: "the response does not begin with HTTP/1"
        case .replyCode: "the response begins with a reply code as in SMTP or FTP, not with HTTP/1"
        case .tlsRecord: "the response is a TLS record, but the request was sent without TLS"
        case .http2Frame: "the response is an HTTP/2 frame, but the request used HTTP/1.1"
        case .version: "the HTTP version in the status line is unknown"
        case .statusLine: "the status line is malformed"
        case .noColon: "a field line has no colon"
        case .fieldName: "a field name is malformed"
        case .fieldValue: "a field value has a control character"
        case .foldedLine: "a field line is folded"
        case .tooManyFields: "the head has too many fields"
        case .headTooLong: "the head is too long"
        case .contentLength: "Content-Length is not a number"
        case .contentLengthsDiffer: "Content-Length has several values"
        case .lengthAndCoding: "the response has both Content-Length and Transfer-Encoding"
        case .unknownCoding: "Transfer-Encoding is not chunked"
        case .codingInHTTP10: "the response has a transfer coding in HTTP/1.0"
        case .emptyCoding: "Transfer-Encoding is empty"
        case .informationalFlood: "too many 1xx responses were received"
        case .unaskedSwitch: "status 101 was received, but the request did not offer another protocol"
        case .http1Response: "the response is HTTP/1.1, but the request used HTTP/2"
        case .pseudoField: "the :status pseudo-field is missing or malformed"
        case .connectionField: "the response has a field that HTTP/2 does not allow"
        case .secondHead: "a second head was received"
        case .endedBeforeHead: "the stream ended before the final head"
        case .contentTooLong: "the content is longer than Content-Length"
        case .contentTooShort: "the content is shorter than Content-Length"
        case .unaskedContent: "content was received, but this response must have none"
        case .surplus: "bytes follow the end of the response"
        case .earlyBytes: "bytes were received before the request was sent"
        }
    }
}

extension ResponseProblem {
    private static let versionStart: StaticString = "HTTP/1."

    /// Returns the problem with the first bytes of a response; nil if they may become a status line.
    public static func inStart(_ bytes: Span<UInt8>) -> ResponseProblem? {
        let count = min(bytes.count, versionStart.utf8CodeUnitCount)
        for index in 0..<count where bytes[index] != versionStart.utf8Start[index] {
            // The digit of the major version.
            return index == 5 && bytes[index].isASCIIDigit ? .version : foreign(bytes)
        }
        return nil
    }

    /// Identifies another protocol by these bytes.
    private static func foreign(_ bytes: Span<UInt8>) -> ResponseProblem {
        guard bytes.count > 0 else { return .notHTTP }
        // RFC 8446 §5.1: an alert, or a handshake message.
        if bytes[0] == 0x15 || bytes[0] == 0x16, bytes.count < 2 || bytes[1] == 3 { return .tlsRecord }
        // RFC 9113 §3.4: a short SETTINGS frame comes first.
        if bytes[0] == 0, bytes.count >= 4 ? bytes[1] == 0 && bytes[3] == 4 : true { return .http2Frame }
        guard bytes.count >= 4, bytes[0].isASCIIDigit, bytes[1].isASCIIDigit, bytes[2].isASCIIDigit,
            bytes[3] == 0x20 || bytes[3] == UInt8(ascii: "-")
        else { return .notHTTP }
        return .replyCode
    }

    /// Returns the problem with a rejected field line.
    /// - Parameter line: the line without its end.
    static func inFieldLine(_ line: UnsafeBufferPointer<UInt8>) -> ResponseProblem {
        guard let first = line.first else { return .noColon }
        if first.isOptionalWhitespace { return .foldedLine }
        guard let colon = line.firstIndex(of: 0x3a) else { return .noColon }
        var end = colon
        while end > 0, line[end - 1].isOptionalWhitespace { end -= 1 }
        guard end > 0, line[..<end].allSatisfy(isTokenByte) else { return .fieldName }
        return .fieldValue
    }
}

public enum ChunkProblem: UInt8, Error, Sendable, CaseIterable {
    case size, sizeTooLarge, extensionsTooLarge, malformedExtension, trailersTooLarge, trailerLine, lineEnd

    /// Text for the sender of the content.
    private var sentence: String {
        self == .lineEnd ? "The chunked content is malformed." : words.prefix(1).uppercased() + words.dropFirst() + "."
    }

    /// The rejection of a request with this problem.
    public var rejection: RequestRejection { self == .trailersTooLarge ? RequestParser.tooLarge : .framing(sentence) }

    /// Text for use within a sentence.
    public var words: String {
        switch self {
        case .size: "a chunk size is not a hexadecimal number"
        case .sizeTooLarge: "a chunk size is too large"
        case .extensionsTooLarge: "the chunk extensions are too large"
        case .malformedExtension: "a chunk extension is malformed"
        case .trailersTooLarge: "the trailer section is too large"
        case .trailerLine: "a trailer line is malformed"
        case .lineEnd: "a chunk is longer than its size"
        }
    }
}
