// The error response for a request that is not passed to the receiver.

import HTTPCore

extension RequestRejection {
    /// - Parameter date: seconds since 1970.
    func response(date: Int64) -> (head: [UInt8], content: [UInt8]) {
        let text = Array(sentence.utf8) + [0x0a]
        var head: [UInt8] = []
        ResponseSerializer.appendStatusLine(status, reason: [], to: &head)
        head.append("Date: ")
        head += HTTPDate.format(date)
        head.append("\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: ")
        head.append(decimal: text.count)
        head.append("\r\n")
        return (head, text)
    }
}
