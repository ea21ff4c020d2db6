// Writes HTTP archives (HAR 1.2) for human review: in the order of the requests, indented, with readable text and without secrets.

import CachePolicy
import HTTPCore
import JSON

public struct ArchiveWriter: Sendable {
    private let upstream: String
    private let version: String
    private let secrets: SecretRedaction?
    private let session: String?
    private var count = 0

    /// - Parameters:
    ///   - upstream: base URL of the recorded upstream.
    ///   - version: version of Cistern.
    ///   - secrets: replaces secrets by placeholders; nil to write secrets unchanged.
    ///   - session: name of the replay that captures the exchanges; nil for a recording.
    public init(upstream: String, version: String, secrets: SecretRedaction?, session: String? = nil) {
        (self.upstream, self.version, self.secrets, self.session) = (upstream, version, secrets, session)
    }

    /// The text before the entries.
    public var opening: [UInt8] {
        let creator: JSONValue = ["name": "cistern", "version": .string(version)]
        let own: JSONValue = ["upstream": .string(upstream)]
        let lines = ["{", "  \"log\": {", "    \"version\": \"1.2\",", "    \"creator\": "].joined(separator: "\n")
        return Array(lines.utf8) + creator.serialized(depth: 2) + Array(",\n    \"_cistern\": ".utf8) + own.serialized(depth: 2)
            + Array(",\n    \"entries\": [".utf8)
    }

    public var closing: [UInt8] { Array((count == 0 ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n").utf8) }

    /// An entry, with its separator from the previous entry.
    public mutating func entry(_ exchange: ArchivedExchange) -> [UInt8] { separated(text(exchange)) }

    /// An entry without a separator.
    public func text(_ exchange: ArchivedExchange) -> [UInt8] { value(exchange).serialized(depth: 3) }

    private mutating func separated(_ entry: [UInt8]) -> [UInt8] {
        defer { count += 1 }
        return Array((count == 0 ? "\n      " : ",\n      ").utf8) + entry
    }

    /// An archive with more entries at its end, in pieces.
    /// - Parameter entries: made by `text`.
    public func pieces(of archive: ArchiveReader, adding entries: [[UInt8]]) -> [[UInt8]] {
        var writer = self
        guard let end = archive.entriesEnd else { return [writer.opening] + entries.map { writer.separated($0) } + [writer.closing] }
        writer.count = archive.count
        return [archive.bytes(..<end)] + entries.map { writer.separated($0) } + [archive.bytes(end...)]
    }

    private func value(_ exchange: ArchivedExchange) -> JSONValue {
        let requestType = exchange.requestFields.first(.contentType).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let sent = redact(exchange.requestContent, MediaType(of: exchange.requestFields))
        let post: JSONValue? =
            sent.isEmpty ? nil : ArchiveEntry.content(sent, [.init("mimeType", .string(requestType))], encodedBy: "_encoding")
        let fields = exchange.response.fields
        let isCoded = fields.contains(.contentEncoding) && !exchange.isDecoded
        let own = (isCoded ? [JSONValue.Member("coded", true)] : []) + (session.map { [.init("session", .string($0))] } ?? [])
        return ArchiveEntry.make(
            ArchiveEntry.Request(
                method: String(decoding: exchange.method, as: UTF8.self), url: redact(url: exchange.url),
                fields: ArchiveEntry.fields(redact(exchange.requestFields)), content: post, contentBytes: sent.count),
            ArchiveEntry.Response(
                status: Int(exchange.response.status.rawValue), fields: ArchiveEntry.fields(redact(fields)),
                content: redact(exchange.content, MediaType(of: fields)),
                type: fields.first(.contentType).map { String(decoding: $0, as: UTF8.self) } ?? ""),
            started: exchange.started.map { .string(RFC3339.format(milliseconds: $0)) }, milliseconds: Int(clamping: exchange.duration),
            more: own.isEmpty ? [] : [.init("_cistern", .object(own))])
    }

    private func redact(_ fields: Fields) -> Fields { secrets?.redact(fields) ?? fields }

    private func redact(_ content: [UInt8], _ type: MediaType?) -> [UInt8] { secrets?.redact(content: content, type: type) ?? content }

    private func redact(url: String) -> String {
        guard let secrets else { return url }
        return String(decoding: secrets.redact(target: url.utf8), as: UTF8.self)
    }
}

/// Makes entries as defined by HAR 1.2.
public enum ArchiveEntry {
    public struct Request {
        let method: String
        let url: String
        let fields: [JSONValue]
        let content: JSONValue?
        let contentBytes: Int

        public init(method: String, url: String, fields: [JSONValue], content: JSONValue? = nil, contentBytes: Int = 0) {
            (self.method, self.url, self.fields, self.content, self.contentBytes) = (method, url, fields, content, contentBytes)
        }
    }

    public struct Response {
        let status: Int
        let fields: [JSONValue]
        let content: [UInt8]
        let type: String

        public init(status: Int, fields: [JSONValue], content: [UInt8], type: String) {
            (self.status, self.fields, self.content, self.type) = (status, fields, content, type)
        }
    }

    public static func make(
        _ request: Request, _ response: Response, started: JSONValue?, milliseconds: Int, more: [JSONValue.Member]
    ) -> JSONValue {
        let asked: JSONValue = [
            "method": .string(request.method), "url": .string(request.url), "httpVersion": "HTTP/1.1", "cookies": [],
            "headers": .array(request.fields), "queryString": .array(arguments(request.url)), "postData": request.content,
            "headersSize": -1, "bodySize": .integer(request.contentBytes),
        ]
        let size = JSONValue.Member("size", .integer(response.content.count))
        let got: JSONValue = [
            "status": .integer(response.status),
            "statusText": .string(
                String(decoding: [UInt8](ReasonPhrase.standard(for: Status(rawValue: UInt16(clamping: response.status)))), as: UTF8.self)),
            "httpVersion": "HTTP/1.1", "cookies": [], "headers": .array(response.fields),
            "content": content(response.content, [size, .init("mimeType", .string(response.type))], encodedBy: "encoding"),
            "redirectURL": "", "headersSize": -1, "bodySize": .integer(response.content.count),
        ]
        let entry: JSONValue = [
            "startedDateTime": started, "time": .integer(milliseconds), "request": asked, "response": got, "cache": [:],
            "timings": ["send": 0, "wait": .integer(milliseconds), "receive": 0],
        ]
        return .object((entry.members ?? []) + more)
    }

    public static func fields(_ fields: Fields) -> [JSONValue] {
        (0..<fields.count).map { index in
            [
                "name": .string(String(decoding: fields.name(at: index), as: UTF8.self)),
                "value": .string(String(decoding: fields.value(at: index), as: UTF8.self)),
            ]
        }
    }

    /// Content as text if it is valid UTF-8, otherwise in base64.
    static func content(_ bytes: [UInt8], _ members: [JSONValue.Member], encodedBy name: String) -> JSONValue {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            return .object(members + [.init("text", .string(Base64.encode(bytes))), .init(name, "base64")])
        }
        return .object(members + [.init("text", .string(text))])
    }

    private static func arguments(_ url: String) -> [JSONValue] {
        guard let question = url.firstIndex(of: "?") else { return [] }
        return url[url.index(after: question)...].split(separator: "&").map { argument in
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let decode = { (text: Substring) in PercentCoding.decode(Array(text.utf8), plusIsSpace: true) ?? String(text) }
            return ["name": .string(decode(parts[0])), "value": .string(parts.count > 1 ? decode(parts[1]) : "")]
        }
    }
}
