// Serializes the head of an HTTP/1.1 response (RFC 9112 §4, §5).

public enum ResponseSerializer {
    /// Appends status line and field lines without the empty line that ends the head, so that more lines may follow.
    public static func append(_ head: ResponseHead, to out: inout [UInt8]) {
        appendStatusLine(head.status, reason: head.reason, to: &out)
        FieldSerializer.append(head.fields, to: &out)
    }

    public static func appendStatusLine(_ status: Status, reason: [UInt8], to out: inout [UInt8]) {
        out.append(atMost: statusLineCapacity(reason)) { writeStatusLine(status, reason: reason, to: &$0) }
    }

    /// Maximum length of a status line in bytes.
    public static func statusLineCapacity(_ reason: [UInt8]) -> Int { 64 + reason.count }

    /// Writes a status line. An empty reason, or one with a control character, is replaced by the standard phrase.
    public static func writeStatusLine(_ status: Status, reason: [UInt8], to writer: inout ByteWriter) {
        // Fast path for nearly all responses.
        if status == 200, reason.isEmpty { return writer.put("HTTP/1.1 200 OK\r\n") }
        writer.put("HTTP/1.1 ")
        writer.put(decimal: Int(status.rawValue))
        writer.put(UInt8(ascii: " "))
        if reason.isEmpty || !reason.allSatisfy(isFieldValueByte) {
            writer.put(ReasonPhrase.standard(for: status))
        } else {
            writer.put(reason)
        }
        writer.put("\r\n")
    }
}
