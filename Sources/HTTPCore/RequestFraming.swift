// Determines the framing of a request's content (RFC 9112 §6). Ambiguous framing is rejected.

enum RequestFraming {
    /// Maximum number of digits in Content-Length: far above any limit on content and far below overflow.
    private static let lengthDigits = 15

    static func decide(_ request: RequestHead) throws(RequestRejection) -> ContentFraming {
        // RFC 9110 §8.3: some servers read the first Content-Type and some the last, so the cache key could be based on another value than
        // the one that the upstream reads.
        guard request.fields.all(.contentType).count <= 1 else { throw .malformed("The request has more than one Content-Type.") }
        let lengths = request.fields.all(.contentLength)
        let codings = request.fields.all(.transferEncoding)
        if !codings.isEmpty {
            guard lengths.isEmpty else { throw .framing("The request has both Transfer-Encoding and Content-Length.") }
            guard request.version == .http11 else { throw .framing("Transfer-Encoding does not exist in HTTP/1.0.") }
            try check(codings)
            return .chunked
        }
        guard let length = lengths.first else { return .none }
        // RFC 9110 §8.6 permits repeated equal values, but two parsers in a chain often disagree about them.
        guard lengths.count == 1 else { throw .framing("The request has more than one Content-Length.") }
        return .length(try value(of: length))
    }

    private static func value(of length: ArraySlice<UInt8>) throws(RequestRejection) -> Int {
        guard !length.isEmpty, length.allSatisfy(\.isASCIIDigit) else { throw .framing("Content-Length must be a number.") }
        guard length.count <= lengthDigits else { throw .contentTooLarge }
        return length.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    /// Accepts exactly one coding, `chunked`, without parameters. Throws 501 for an unknown coding (RFC 9112 §6.1), and 400 for a wrong use
    /// of chunked.
    private static func check(_ codings: [ArraySlice<UInt8>]) throws(RequestRejection) {
        guard !FieldListLimit.isExceeded(by: codings) else { throw .framing("Transfer-Encoding must be chunked, once and alone.") }
        let members = codings.flatMap { $0.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) }
            .map(\.trimmed)
        if members.count == 1, members[0].equalsIgnoringCase("chunked") { return }
        let known: [StaticString] = ["gzip", "x-gzip", "compress", "x-compress", "deflate"]
        let isOdd = members.contains { member in
            member.equalsIgnoringCase("chunked") || member.isEmpty || !member.allSatisfy(isTokenByte)
        }
        let allKnown = members.allSatisfy { member in known.contains { member.equalsIgnoringCase($0) } }
        if isOdd || allKnown, !(members.count == 1 && allKnown) {
            throw .framing("Transfer-Encoding must be chunked, once and alone.")
        }
        throw RequestRejection(.codingNotImplemented, 501, "This transfer coding is not supported.")
    }
}
