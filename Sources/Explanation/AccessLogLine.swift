// Builds a line of the access log: JSON with the configured fields, the common log format with the cache result appended, or the combined
// format. Data from clients is escaped. The query is included only if configured, with secret arguments redacted.

import CachePolicy
import Figures
import HTTPCore
import Upstream

public struct AccessLogLine {
    public struct Client {
        /// Empty for a Unix socket.
        let address: [UInt8]
        /// Subject of the verified client certificate; nil if there is none.
        let subject: String?
        /// TLS version; nil without TLS.
        let tls: String?

        public init(_ address: [UInt8], subject: String? = nil, tls: String? = nil) {
            (self.address, self.subject, self.tls) = (address, subject, tls)
        }
    }

    private let head: RequestHead
    public var client = Client([])
    /// Request ID; nil if there is none.
    public var name: [UInt8]?
    /// Empty if there is only one API, or if the request belongs to none.
    public var api = ""
    /// Empty if no route matches.
    public var route = ""
    /// Host and port of the address that responded; nil if there was no response.
    public var upstreamAddress: String?

    /// Maximum length in bytes of logged client data other than the request line.
    private static let textBytes = 1_024

    public init(_ head: RequestHead) { self.head = head }

    /// - Parameters:
    ///   - record: the completed record.
    ///   - fields: fields in order; for other formats than JSON only the query is optional.
    public func make(_ record: borrowing ExchangeRecord, _ format: AccessLog.Format, _ fields: [AccessField]) -> [UInt8] {
        var line: [UInt8] = []
        line.reserveCapacity(512)
        switch format {
        case .json: appendJSON(record, fields, to: &line)
        case .common:
            appendCommon(record, hasQuery: fields.contains(.query), to: &line)
            line += Array(" \(record.result.label) \(record.loggedReason ?? "-")\n".utf8)
        case .combined:
            appendCommon(record, hasQuery: fields.contains(.query), to: &line)
            for text in [referer, userAgent] {
                line.append(" \"")
                if let text { Self.append(escaped: text, to: &line) } else { line.append("-") }
                line.append("\"")
            }
            line.append("\n")
        }
        return line
    }

    // MARK: JSON

    private func appendJSON(_ record: borrowing ExchangeRecord, _ fields: [AccessField], to line: inout [UInt8]) {
        line.append("{")
        for field in fields {
            let start = line.count
            if start > 1 { line.append(",") }
            let named = line.count
            append(field, record, to: &line)
            // Removes the comma if the field has no value.
            if line.count == named { line.removeLast(named - start) }
        }
        line.append("}\n")
    }

    private func append(_ field: AccessField, _ record: borrowing ExchangeRecord, to line: inout [UInt8]) {
        switch field {
        case .time:
            Self.append("time", record.wall / 1_000, to: &line)
            line.append(".")
            line += Array(Self.milliseconds(record.wall).utf8)
        case .client: Self.append("client", client.address.isEmpty ? Array("unix".utf8)[...] : client.address[...], to: &line)
        case .clientSubject: Self.append("client_subject", client.subject, to: &line)
        case .requestID: Self.append("request_id", name?[...], to: &line)
        case .traceID: Self.append("trace_id", traceText, to: &line)
        case .api: Self.append("api", api.isEmpty ? nil : api, to: &line)
        case .route: Self.append("route", route.isEmpty ? nil : route, to: &line)
        case .method: Self.append("method", head.method.bytes[...], to: &line)
        case .path: Self.append("path", path, to: &line)
        case .query: Self.append("query", query?[...], to: &line)
        case .httpVersion: Self.append("protocol", head.version.name, to: &line)
        case .tls: Self.append("tls", client.tls, to: &line)
        case .userAgent: Self.append("user_agent", userAgent, to: &line)
        case .referer: Self.append("referer", referer, to: &line)
        case .status: Self.append("status", Int64(record.status), to: &line)
        case .bytes: Self.append("bytes", Int64(record.bodyBytes), to: &line)
        case .duration: Self.append("duration_us", record.durationMicroseconds, to: &line)
        case .content: Self.append("content_us", record.content.microseconds < 0 ? nil : record.content.microseconds, to: &line)
        case .result: Self.append("result", "\(record.result.label)", to: &line)
        case .reason: Self.append("reason", record.loggedReason, to: &line)
        case .age: Self.append("age", record.age, to: &line)
        case .shared: Self.append("shared", record.found.fleetReply?.outcome.rawValue, to: &line)
        case .upstream: Self.append("upstream_us", record.upstream.microseconds < 0 ? nil : record.upstream.microseconds, to: &line)
        case .upstreamStatus: Self.append("upstream_status", record.upstream.status > 0 ? Int64(record.upstream.status) : nil, to: &line)
        case .upstreamAddress: Self.append("upstream_address", upstreamAddress, to: &line)
        case .upstreamVersion: Self.append("upstream_protocol", record.upstream.spoken?.version.name, to: &line)
        case .upstreamPhases: Self.append(record.upstream.times, to: &line)
        }
    }

    /// Appends the phases as in `why`: each from the end of the previous one. Phases of a reused connection are 0.
    private static func append(_ times: TransferTimes, to line: inout [UInt8]) {
        let phases: [(name: StaticString, end: Int32, start: Int32)] = [
            ("upstream_resolve_us", times.resolved, 0), ("upstream_connect_us", times.connected, times.resolved),
            ("upstream_tls_us", times.secured, times.connected), ("upstream_wait_us", times.firstByte, times.sent),
            ("upstream_content_us", times.ended, times.firstByte),
        ]
        let start = line.count
        for phase in phases where phase.end >= 0 {
            if line.count > start { line.append(",") }
            append(phase.name, Int64(max(0, phase.end - max(0, phase.start))), to: &line)
        }
    }

    private static func begin(_ name: StaticString, to line: inout [UInt8]) {
        line.append(atMost: name.utf8CodeUnitCount + 3) { end in
            end.put("\"")
            end.put(name)
            end.put("\":")
        }
    }

    private static func append(_ name: StaticString, _ number: Int64?, to line: inout [UInt8]) {
        guard let number else { return }
        begin(name, to: &line)
        line.append(decimal: Int(number))
    }

    private static func append(_ name: StaticString, _ text: ArraySlice<UInt8>?, to line: inout [UInt8]) {
        guard let text else { return }
        begin(name, to: &line)
        line.append("\"")
        append(escaped: text, to: &line)
        line.append("\"")
    }

    private static func append(_ name: StaticString, _ text: String?, to line: inout [UInt8]) {
        append(name, text.map { Array($0.utf8)[...] }, to: &line)
    }

    // MARK: Common log format

    private func appendCommon(_ record: borrowing ExchangeRecord, hasQuery: Bool, to line: inout [UInt8]) {
        line += client.address.isEmpty ? Array("unix".utf8) : client.address
        let date = HTTPDate.format(record.wall / 1000)
        // "Sun, 06 Nov 1994 08:49:37 GMT" becomes [06/Nov/1994:08:49:37 +0000].
        let (day, month, year, clock) = (date[5..<7], date[8..<11], date[12..<16], date[17..<25])
        line.append(" - ")
        // The user field; a space would end it.
        if let subject = client.subject {
            Self.append(escaped: subject.utf8.map { $0 == 0x20 ? 0x5f : $0 }[...], to: &line)
        } else {
            line.append("-")
        }
        line.append(" [")
        for (part, separator) in [(day, "/"), (month, "/"), (year, ":"), (clock, " +0000] \"")] as [(ArraySlice<UInt8>, StaticString)] {
            line += part
            line.append(separator)
        }
        Self.append(escaped: head.method.bytes[...], to: &line)
        line.append(" ")
        Self.append(escaped: path, to: &line)
        if hasQuery, let query {
            line.append("?")
            Self.append(escaped: query[...], to: &line)
        }
        line += Array(" \(head.version.name)\" \(record.status) \(record.bodyBytes)".utf8)
    }

    private static func milliseconds(_ wall: Int64) -> String {
        let text = String(wall % 1000)
        return String(repeating: "0", count: 3 - text.count) + text
    }

    /// The trace in which the request is recorded, else that of its traceparent; nil if there is none.
    private var traceText: String? {
        if head.span.isRecorded { return head.span.trace.text }
        return head.contains(.traceparent) ? TraceParent(head.fields)?.trace.text : nil
    }

    // MARK: Client data

    /// The path with secret parameters redacted.
    private var path: ArraySlice<UInt8> {
        let path = head.pathAndQuery.withoutQuery
        return path.contains { ";=%".utf8.contains($0) } ? SecretNames.redactedBytes(path)[...] : path
    }

    /// The query with secret arguments redacted; nil if there is none.
    private var query: [UInt8]? {
        let target = head.pathAndQuery
        guard let question = target.firstIndex(of: UInt8(ascii: "?")) else { return nil }
        return Array(SecretNames.redactedBytes(target[question...]).dropFirst())
    }

    private var userAgent: ArraySlice<UInt8>? { head.fields.first(.userAgent)?.prefix(Self.textBytes) }

    /// The referrer without its query, which belongs to another page, and without user information.
    private var referer: ArraySlice<UInt8>? {
        head.fields.first(.referer).map {
            $0.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }.withoutUserInformation.prefix(Self.textBytes)
        }
    }

    private static func append(escaped text: ArraySlice<UInt8>, to line: inout [UInt8]) {
        guard text.contains(where: { $0 < 0x20 || $0 >= 0x7f || $0 == 0x22 || $0 == 0x5c }) else {
            line.append(contentsOf: text)
            return
        }
        for byte in text {
            if byte == 0x22 || byte == 0x5c { line.append(0x5c) }
            line.append(byte < 0x20 || byte >= 0x7f ? UInt8(ascii: "?") : byte)
        }
    }
}
