// One line of the access log: JSON, or the common log format with what the cache did at its end. What clients send is escaped; the query
// is left out, since arguments may be secrets.

import CachePolicy
import HTTPCore
import Telemetry
import Upstream

public enum AccessLogLine {
    /// Who asked.
    public struct Client {
        /// Empty on a Unix socket.
        let address: [UInt8]
        /// The subject of the certificate that was presented and found good.
        let subject: String?

        public init(_ address: [UInt8], subject: String? = nil) { (self.address, self.subject) = (address, subject) }
    }

    /// Whom it was for.
    public struct Upstream {
        /// Empty for the only one, and for none of several.
        let api: String
        /// Where a connection carried the request.
        let spoken: SpokenProtocol?

        public init(api: String = "", spoken: SpokenProtocol? = nil) { (self.api, self.spoken) = (api, spoken) }
    }

    public static func make(
        _ record: ExchangeRecord, _ head: RequestHead, client: Client, upstream: Upstream = Upstream(), wall: Int64,
        format: AccessLog.Format
    ) -> [UInt8] {
        switch format {
        case .json: json(record, head, client, upstream, wall)
        case .common: common(record, head, client, wall)
        }
    }

    private static func json(
        _ record: ExchangeRecord, _ head: RequestHead, _ client: Client, _ upstream: Upstream, _ wall: Int64
    ) -> [UInt8] {
        var line = Array("{\"time\":\(wall / 1000).\(milliseconds(wall)),\"client\":\"".utf8)
        line += client.address.isEmpty ? Array("unix".utf8) : client.address
        if let subject = client.subject {
            line += Array("\",\"client_subject\":\"".utf8)
            appendEscaped(Array(subject.utf8)[...], to: &line)
        }
        if !upstream.api.isEmpty { line += Array("\",\"api\":\"\(upstream.api)".utf8) }
        line += Array("\",\"method\":\"".utf8)
        appendEscaped(head.method.bytes[...], to: &line)
        line += Array("\",\"path\":\"".utf8)
        appendEscaped(path(head), to: &line)
        line += Array("\",\"protocol\":\"\(head.version.name)".utf8)
        line += Array("\",\"status\":\(record.status),\"bytes\":\(record.bodyBytes),\"duration_us\":\(record.durationMicroseconds)".utf8)
        line += Array(",\"result\":\"\(record.result.label)\"".utf8)
        if let microseconds = record.upstreamMicroseconds { line += Array(",\"upstream_us\":\(microseconds)".utf8) }
        if let spoken = upstream.spoken { line += Array(",\"upstream_protocol\":\"\(spoken.version.name)\"".utf8) }
        if let microseconds = record.contentMicroseconds { line += Array(",\"content_us\":\(microseconds)".utf8) }
        if let age = record.age { line += Array(",\"age\":\(age)".utf8) }
        if let reason = reason(record) { line += Array(",\"reason\":\"\(reason)\"".utf8) }
        return line + Array("}\n".utf8)
    }

    private static func common(_ record: ExchangeRecord, _ head: RequestHead, _ client: Client, _ wall: Int64) -> [UInt8] {
        var line = client.address.isEmpty ? Array("unix".utf8) : client.address
        let date = HTTPDate.format(wall / 1000)
        // "Sun, 06 Nov 1994 08:49:37 GMT" becomes [06/Nov/1994:08:49:37 +0000].
        let (day, month, year, clock) = (date[5..<7], date[8..<11], date[12..<16], date[17..<25])
        line.append(" - ")
        // The user's place; a space in it would end it.
        if let subject = client.subject {
            appendEscaped(subject.utf8.map { $0 == 0x20 ? 0x5f : $0 }[...], to: &line)
        } else {
            line.append("-")
        }
        line.append(" [")
        for (part, separator) in [(day, "/"), (month, "/"), (year, ":"), (clock, " +0000] \"")] as [(ArraySlice<UInt8>, StaticString)] {
            line += part
            line.append(separator)
        }
        appendEscaped(head.method.bytes[...], to: &line)
        line.append(0x20)
        appendEscaped(path(head), to: &line)
        line += Array(" \(head.version.name)\" \(record.status) \(record.bodyBytes)".utf8)
        line += Array(" \(record.result.label) \(reason(record) ?? "-")\n".utf8)
        return line
    }

    private static func milliseconds(_ wall: Int64) -> String {
        let text = String(wall % 1000)
        return String(repeating: "0", count: 3 - text.count) + text
    }

    private static func path(_ head: RequestHead) -> ArraySlice<UInt8> { head.pathAndQuery.withoutQuery }

    private static func reason(_ record: ExchangeRecord) -> String? {
        if let cause = record.rescueCause { return MetricNames.rescueCauses[cause] }
        return record.notStored.map { MetricNames.notStored[$0].rawValue }
    }

    private static func appendEscaped(_ text: ArraySlice<UInt8>, to line: inout [UInt8]) {
        for byte in text {
            if byte == 0x22 || byte == 0x5c { line.append(0x5c) }
            line.append(byte < 0x20 || byte >= 0x7f ? UInt8(ascii: "?") : byte)
        }
    }
}
