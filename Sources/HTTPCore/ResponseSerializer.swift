// Writes the head of an HTTP/1.1 response (RFC 9112 §4, §5).

package enum ResponseSerializer {
    /// Status line and field lines, without the empty line that ends the head: more lines may follow.
    package static func append(_ head: ResponseHead, to out: inout [UInt8]) {
        appendStatusLine(head.status, reason: head.reason, to: &out)
        FieldSerializer.append(head.fields, to: &out)
    }

    /// A reason that is empty or holds a control character is replaced by the standard one.
    package static func appendStatusLine(_ status: Status, reason: [UInt8], to out: inout [UInt8]) {
        // Nearly all.
        if status == 200, reason.isEmpty { return out.append("HTTP/1.1 200 OK\r\n") }
        out.append("HTTP/1.1 ")
        out.append(decimal: Int(status.rawValue))
        out.append(UInt8(ascii: " "))
        if reason.isEmpty || !reason.allSatisfy(isFieldValueByte) {
            out.append(ReasonPhrase.standard(for: status))
        } else {
            out += reason
        }
        out.append("\r\n")
    }
}
