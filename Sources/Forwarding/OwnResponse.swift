// Responses that Cistern generates: errors and its own pages. An error is one sentence of plain text, because many clients display nothing
// else. Clients that prefer problem details (RFC 9457) receive these.

import HTTPCore

/// A complete generated response.
public struct OwnResponse: Sendable {
    public var status: Status
    public var contentType: StaticString = "text/plain; charset=utf-8"
    public var content: [UInt8]
    /// Additional field lines, each with CRLF.
    public var fieldLines: [UInt8] = []

    /// Creates an error in the form that the client prefers.
    /// - Parameter accept: the request's Accept field, all lines joined; nil if absent.
    public init(status: Status, sentence: String, accept: ArraySlice<UInt8>?) {
        self.status = status
        if let accept, Self.prefersProblem(accept) {
            contentType = "application/problem+json"
            content = Array("{\"type\":\"about:blank\",\"title\":\"".utf8)
            content.append(ReasonPhrase.standard(for: status))
            content += Array("\",\"status\":".utf8)
            content.append(decimal: Int(status.rawValue))
            content += Array(",\"detail\":\"".utf8)
            content += Self.escaped(sentence)
            content += Array("\"}\n".utf8)
        } else {
            content = Array(sentence.utf8) + [UInt8(ascii: "\n")]
        }
    }

    public init(status: Status, contentType: StaticString, content: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.content = content
    }

    /// Returns status line and fields, without the empty line at the end.
    /// - Parameter date: an IMF-fixdate.
    public func head(date: [UInt8]) -> [UInt8] {
        var head: [UInt8] = []
        head.reserveCapacity(256 + fieldLines.count)
        head.append("HTTP/1.1 ")
        head.append(decimal: Int(status.rawValue))
        head.append(UInt8(ascii: " "))
        head.append(ReasonPhrase.standard(for: status))
        head.append("\r\nDate: ")
        head += date
        head.append("\r\nContent-Type: ")
        head.append(contentType)
        head.append("\r\nContent-Length: ")
        head.append(decimal: content.count)
        head.append("\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n")
        head += fieldLines
        return head
    }

    /// Returns whether Accept names JSON or `application/problem+json` and no text type before it. `*/*` alone selects text.
    private static func prefersProblem(_ accept: ArraySlice<UInt8>) -> Bool {
        var isJSON = false
        for member in accept.split(separator: UInt8(ascii: ","), maxSplits: FieldListLimit.members) {
            let type = member.split(separator: UInt8(ascii: ";"), maxSplits: 1).first ?? []
            let name = type.filter { !$0.isOptionalWhitespace }.map(\.asciiLowercased)
            if name == Array("text/plain".utf8) || name == Array("text/html".utf8) { return isJSON }
            if name == Array("application/problem+json".utf8) || name == Array("application/json".utf8) { isJSON = true }
        }
        return isJSON
    }

    private static func escaped(_ text: String) -> [UInt8] {
        var out: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): out += [UInt8(ascii: "\\"), byte]
            case 0..<0x20: out.append(UInt8(ascii: " "))
            default: out.append(byte)
            }
        }
        return out
    }
}
