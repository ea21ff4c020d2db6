// One request and its response as an HTTP archive (HAR 1.2) has them, read from what Chromium, Firefox, mitmproxy, Playwright and Cistern itself
// write. They differ: base64 or text, coded or not, members of their own that begin with `_`, pseudo fields of HTTP/2, contents that are
// missing or cut. Here all of it becomes one form, or it is said why not.

import HTTPCore
import JSON

public struct ArchivedExchange: Sendable {
    public let method: [UInt8]
    public let url: String
    public let requestFields: Fields
    public let requestContent: [UInt8]
    /// Whether the archive holds what was sent: some recorders leave out what is not text.
    public let isRequestContentKnown: Bool
    /// With the fields that can be sent, as they are in the archive.
    public let response: ResponseHead
    public let content: [UInt8]
    /// Whether the coding that Content-Encoding names has been taken off the content.
    public let isDecoded: Bool
    /// Milliseconds since 1970; nil where the archive does not say.
    public let started: Int64?
    /// Milliseconds.
    public let duration: Int64

    /// What takes longer is not believed.
    public static let durationLimit: Int64 = 3_600_000

    public init(
        method: [UInt8], url: String, requestFields: Fields, requestContent: [UInt8], response: ResponseHead, content: [UInt8],
        isDecoded: Bool, started: Int64?, duration: Int64
    ) {
        (self.method, self.url, self.requestFields, self.requestContent) = (method, url, requestFields, requestContent)
        isRequestContentKnown = true
        (self.response, self.content, self.isDecoded, self.started, self.duration) = (response, content, isDecoded, started, duration)
    }
}

/// Why an entry has no exchange.
public enum ArchiveFault: Error, Equatable {
    /// It is not as HAR 1.2 has it: which member, and what is wrong.
    case malformed(String)
    /// It is in order, and holds nothing that could be served.
    case unusable(UnusableReason)
}

public enum UnusableReason: String, Error, CaseIterable, Sendable {
    /// Status 0: the request was stopped, blocked or never answered.
    case noResponse = "no_response"
    case webSocket = "websocket"
    /// The archive does not hold it, though there was some.
    case noContent = "no_content"
    /// The archive holds the beginning of it only.
    case cutContent = "cut_content"
    /// It lies in a file of its own.
    case contentElsewhere = "content_elsewhere"

    public var sentence: String {
        switch self {
        case .noResponse: "the request got no response (status 0)"
        case .webSocket: "a WebSocket is no exchange of a request and a response"
        case .noContent: "the archive does not hold the content"
        case .cutContent: "the archive holds only the beginning of the content"
        case .contentElsewhere: "the content lies in another file; have the recorder embed it"
        }
    }
}

extension ArchivedExchange {
    public init(_ entry: JSONValue) throws(ArchiveFault) {
        guard let request = entry["request"], request.members != nil else { throw .malformed("request is missing") }
        guard let response = entry["response"], response.members != nil else { throw .malformed("response is missing") }
        guard let method = request["method"]?.string, !method.isEmpty, method.utf8.allSatisfy(isTokenByte) else {
            throw .malformed("request.method is missing or not a method")
        }
        guard let url = request["url"]?.string else { throw .malformed("request.url is missing") }
        let isSocket = entry["_webSocketMessages"] != nil || entry["_resourceType"]?.string == "websocket"
        if isSocket || url.hasPrefix("ws:") || url.hasPrefix("wss:") { throw .unusable(.webSocket) }
        let status = try Self.status(response)
        let fields = try Self.responseFields(response)
        self.method = Array(method.utf8)
        self.url = url
        let requestFields = try Self.requestFields(request)
        self.requestFields = requestFields
        (requestContent, isRequestContentKnown) = try Self.requestContent(request["postData"], requestFields)
        self.response = ResponseHead(status: status, fields: fields)
        let hasContent = !status.forbidsContent && method != "HEAD"
        content = hasContent ? try Self.content(response["content"]) : []
        // Playwright does not know contents that the app has not read. Of a redirect nobody reads more than where it leads to.
        let isUnread = response["content"]?["size"]?.integer == -1 && content.isEmpty && Self.length(fields) > 0
        if hasContent, isUnread, !status.isRedirection { throw .unusable(.noContent) }
        isDecoded =
            (ContentCoding(fields) != .identity && entry["_cistern"]?["coded"] != true) || entry["_cistern"]?["decoded"] == true
        started = entry["startedDateTime"]?.string.flatMap { RFC3339.parse($0) }
        duration = Int64(max(0, min(entry["time"]?.double ?? 0, Double(Self.durationLimit))))
    }

    private static func status(_ response: JSONValue) throws(ArchiveFault) -> Status {
        guard let status = response["status"]?.integer else { throw .malformed("response.status is missing or not a number") }
        switch status {
        case 0, -1: throw .unusable(.noResponse)
        case 101: throw .unusable(.webSocket)
        // Browsers write what the app saw: the content of their copy, which the 304 has confirmed.
        case 304 where response["content"]?["text"]?.string?.isEmpty == false: return 200
        case 200...599: return Status(rawValue: UInt16(status))
        default: throw .malformed("response.status is not between 200 and 599")
        }
    }

    private static func responseFields(_ response: JSONValue) throws(ArchiveFault) -> Fields {
        var fields = try fields(response["headers"], "response.headers")
        let unknown = ["", "x-unknown", "application/x-unknown-content-type"]
        if !fields.contains(.contentType), let type = response["content"]?["mimeType"]?.string, !unknown.contains(type), isValue(type) {
            fields.append(.contentType, type)
        }
        // Text is decoded by the recorder: it goes out in UTF-8, whatever it came in.
        if let content = response["content"], content["encoding"]?.string != "base64", let text = content["text"]?.string,
            text.utf8.contains(where: { $0 >= 0x80 }), let type = fields.first(.contentType), let unicode = inUTF8(type)
        {
            fields.set(.contentType, unicode)
        }
        return fields
    }

    /// A type with another charset, with this one instead; nil where it has none, or this one.
    private static func inUTF8(_ type: ArraySlice<UInt8>) -> [UInt8]? {
        var parameters = type.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        guard let place = parameters.firstIndex(where: { $0.trimmed.prefix(8).equalsIgnoringCase("charset=") }) else { return nil }
        guard !parameters[place].trimmed.dropFirst(8).equalsIgnoringCase("utf-8") else { return nil }
        parameters[place] = Array(" charset=utf-8".utf8)[...]
        return Array(parameters.joined(separator: [UInt8(ascii: ";")]))
    }

    /// What Content-Length says; 0 where it says nothing.
    private static func length(_ fields: Fields) -> Int {
        fields.first(.contentLength).flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
    }

    /// Those that can be sent; an archive of HTTP/2 has others too. Some recorders join the lines of one field by line breaks.
    private static func fields(_ headers: JSONValue?, _ place: String) throws(ArchiveFault) -> Fields {
        var fields = Fields()
        for (index, header) in (headers?.array ?? []).enumerated() {
            guard let name = header["name"]?.string, let value = header["value"]?.string else {
                throw .malformed("\(place)[\(index)] has no name or no value")
            }
            guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else { continue }
            for line in value.split(separator: "\n", omittingEmptySubsequences: false) where isValue(String(line)) {
                fields.append(name: name, value: String(line))
            }
        }
        return fields
    }

    /// Some say the type of the content there only.
    private static func requestFields(_ request: JSONValue) throws(ArchiveFault) -> Fields {
        var fields = try fields(request["headers"], "request.headers")
        if !fields.contains(.contentType), let type = request["postData"]?["mimeType"]?.string, !type.isEmpty, isValue(type) {
            fields.append(.contentType, type)
        }
        return fields
    }

    private static func isValue(_ text: String) -> Bool { text.utf8.allSatisfy(isFieldValueByte) }

    // MARK: Content

    private static func requestContent(
        _ post: JSONValue?, _ fields: Fields
    ) throws(ArchiveFault) -> (bytes: [UInt8], isKnown: Bool) {
        let length = length(fields)
        guard let post, post != .null else { return ([], length == 0) }
        if let text = post["text"]?.string, !text.isEmpty || post["params"]?.array?.isEmpty != false {
            if let encoding = post["_encoding"] ?? post["encoding"] {
                return (try bytes(text, encoding: encoding, "request.postData"), true)
            }
            return (sent(text, length), !text.isEmpty || length == 0)
        }
        if isElsewhere(post) { throw .unusable(.contentElsewhere) }
        let pairs = (post["params"]?.array ?? []).map { parameter in
            PercentCoding.encode(parameter["name"]?.string ?? "") + "=" + PercentCoding.encode(parameter["value"]?.string ?? "")
        }
        return (Array(pairs.joined(separator: "&").utf8), true)
    }

    /// Browsers and mitmproxy write what is not UTF-8 with a character for each byte; only its length tells.
    private static func sent(_ text: String, _ length: Int) -> [UInt8] {
        let scalars = text.unicodeScalars
        guard text.utf8.count != length, scalars.count == length, scalars.allSatisfy({ $0.value <= 0xff }) else { return Array(text.utf8) }
        return scalars.map { UInt8(truncatingIfNeeded: $0.value) }
    }

    private static func content(_ content: JSONValue?) throws(ArchiveFault) -> [UInt8] {
        let size = content?["size"]?.integer ?? 0
        guard let content, let text = content["text"]?.string else {
            if let content, isElsewhere(content) { throw .unusable(.contentElsewhere) }
            if size > 0 { throw .unusable(.noContent) }
            return []
        }
        let bytes = try bytes(text, encoding: content["encoding"], "response.content")
        // Where something was saved by a coding, some say the coded length.
        let isPlain = (content["compression"]?.integer ?? 0) == 0
        if isPlain, size > bytes.count { throw .unusable(bytes.isEmpty ? .noContent : .cutContent) }
        return bytes
    }

    private static func bytes(_ text: String, encoding: JSONValue?, _ place: String) throws(ArchiveFault) -> [UInt8] {
        guard encoding?.string == "base64" else { return Array(text.utf8) }
        guard let bytes = Base64.decode(text) else { throw .malformed("\(place).text is not base64") }
        return bytes
    }

    /// Playwright writes contents into files of their own where it is told to.
    private static func isElsewhere(_ value: JSONValue) -> Bool { value["_file"] != nil || value["_sha1"] != nil }
}
