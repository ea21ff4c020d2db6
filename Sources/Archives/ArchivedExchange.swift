// A request and its response, read from an HTTP archive (HAR 1.2) of Chromium, Firefox, mitmproxy, Playwright or Cistern. Normalizes the
// differences between these recorders: base64 or text, content coding, members that begin with `_`, pseudo fields of HTTP/2. Reports why an
// entry with missing or truncated content cannot be used.

import HTTPCore
import JSON

public struct ArchivedExchange: Sendable {
    public let method: [UInt8]
    public let url: String
    public let requestFields: Fields
    public let requestContent: [UInt8]
    /// False if the archive lacks content that the request had. Some recorders omit content that is not text.
    public let isRequestContentKnown: Bool
    /// Contains the recorded fields that can be sent.
    public let response: ResponseHead
    public let content: [UInt8]
    /// Whether the content is stored without the coding that Content-Encoding names.
    public let isDecoded: Bool
    /// Milliseconds since 1970; nil if the archive has no valid time.
    public let started: Int64?
    /// Duration of the exchange in milliseconds.
    public let duration: Int64
    /// Name of the replay that captured the exchange; nil for other exchanges.
    public let session: String?

    /// Maximum duration in milliseconds. Longer recorded durations are reduced to it.
    public static let durationLimit: Int64 = 3_600_000

    public init(
        method: [UInt8], url: String, requestFields: Fields, requestContent: [UInt8], response: ResponseHead, content: [UInt8],
        isDecoded: Bool, started: Int64?, duration: Int64
    ) {
        (self.method, self.url, self.requestFields, self.requestContent) = (method, url, requestFields, requestContent)
        isRequestContentKnown = true
        (self.response, self.content, self.isDecoded, self.started, self.duration) = (response, content, isDecoded, started, duration)
        session = nil
    }
}

/// Why an entry cannot be read as an exchange.
public enum ArchiveFault: Error, Equatable {
    /// The entry violates HAR 1.2. Names the member and the mistake.
    case malformed(String)
    /// The entry is valid, but has no response that could be served.
    case unusable(UnusableReason)
}

public enum UnusableReason: String, Error, CaseIterable, Sendable {
    /// Status 0: the request was cancelled, blocked or not answered.
    case noResponse = "no_response"
    case webSocket = "websocket"
    /// The archive lacks the content of the response.
    case noContent = "no_content"
    /// The archive contains only the beginning of the content.
    case cutContent = "cut_content"
    /// The content is in a separate file.
    case contentElsewhere = "content_elsewhere"

    public var sentence: String {
        switch self {
        case .noResponse: "the request got no response (status 0)"
        case .webSocket: "a WebSocket connection has no response that could be replayed"
        case .noContent: "the archive does not contain the content"
        case .cutContent: "the archive contains only the beginning of the content"
        case .contentElsewhere: "the content is in another file; configure the recorder to embed it"
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
        // Playwright does not record content that the app has not read. Content of a redirect is not needed.
        let isUnread = response["content"]?["size"]?.integer == -1 && content.isEmpty && Self.length(fields) > 0
        if hasContent, isUnread, !status.isRedirection { throw .unusable(.noContent) }
        isDecoded =
            (ContentCoding(fields) != .identity && entry["_cistern"]?["coded"] != true) || entry["_cistern"]?["decoded"] == true
        started = entry["startedDateTime"]?.string.flatMap { RFC3339.parse($0) }
        duration = Int64(max(0, min(entry["time"]?.double ?? 0, Double(Self.durationLimit))))
        session = entry["_cistern"]?["session"]?.string
    }

    private static func status(_ response: JSONValue) throws(ArchiveFault) -> Status {
        guard let status = response["status"]?.integer else { throw .malformed("response.status is missing or not a number") }
        switch status {
        case 0, -1: throw .unusable(.noResponse)
        case 101: throw .unusable(.webSocket)
        // Browsers record the result that the app received: content from their cache, which the 304 confirmed.
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
        // Recorders decode text, which is served in UTF-8 whatever its original charset.
        if let content = response["content"], content["encoding"]?.string != "base64", let text = content["text"]?.string,
            text.utf8.contains(where: { $0 >= 0x80 }), let type = fields.first(.contentType), let unicode = inUTF8(type)
        {
            fields.set(.contentType, unicode)
        }
        return fields
    }

    /// The media type with its charset replaced by UTF-8; nil if it has no charset, or UTF-8 already.
    private static func inUTF8(_ type: ArraySlice<UInt8>) -> [UInt8]? {
        var parameters = type.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        guard let index = parameters.firstIndex(where: { $0.trimmed.prefix(8).equalsIgnoringCase("charset=") }) else { return nil }
        guard !parameters[index].trimmed.dropFirst(8).equalsIgnoringCase("utf-8") else { return nil }
        parameters[index] = Array(" charset=utf-8".utf8)[...]
        return Array(parameters.joined(separator: [UInt8(ascii: ";")]))
    }

    /// Value of Content-Length; 0 if absent or invalid.
    private static func length(_ fields: Fields) -> Int {
        fields.first(.contentLength).flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
    }

    /// The fields that can be sent, without pseudo fields of HTTP/2. Some recorders join several lines of a field with line breaks.
    private static func fields(_ headers: JSONValue?, _ path: String) throws(ArchiveFault) -> Fields {
        var fields = Fields()
        for (index, header) in (headers?.array ?? []).enumerated() {
            guard let name = header["name"]?.string, let value = header["value"]?.string else {
                throw .malformed("\(path)[\(index)] has no name or no value")
            }
            guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else { continue }
            for line in value.split(separator: "\n", omittingEmptySubsequences: false) where isValue(String(line)) {
                fields.append(name: name, value: String(line))
            }
        }
        return fields
    }

    /// The request's fields. Some recorders give the content's type in `postData` only, and cookies in `cookies` only.
    private static func requestFields(_ request: JSONValue) throws(ArchiveFault) -> Fields {
        var fields = try fields(request["headers"], "request.headers")
        if !fields.contains(.contentType), let type = request["postData"]?["mimeType"]?.string, !type.isEmpty, isValue(type) {
            fields.append(.contentType, type)
        }
        if !fields.contains(.cookie), let cookies = cookies(request) { fields.append(.cookie, cookies) }
        return fields
    }

    /// The value of a Cookie field with `request.cookies`; nil without cookies. If one of them cannot be sent, the value is the placeholder
    /// for secrets, so that the response is not imported for other users.
    private static func cookies(_ request: JSONValue) -> String? {
        guard let cookies = request["cookies"]?.array, !cookies.isEmpty else { return nil }
        let pairs = cookies.compactMap { cookie -> String? in
            guard let name = cookie["name"]?.string, let value = cookie["value"]?.string else { return nil }
            return name.isEmpty ? value : name + "=" + value
        }
        let text = pairs.joined(separator: "; ")
        return pairs.count == cookies.count && !text.isEmpty && isValue(text) ? text : SecretRedaction.placeholder
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

    /// Restores content that is not UTF-8. Browsers and mitmproxy write one character per byte for it, which only its length reveals.
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
        // With compression, some recorders give the compressed length.
        let isPlain = (content["compression"]?.integer ?? 0) == 0
        if isPlain, size > bytes.count { throw .unusable(bytes.isEmpty ? .noContent : .cutContent) }
        return bytes
    }

    private static func bytes(_ text: String, encoding: JSONValue?, _ path: String) throws(ArchiveFault) -> [UInt8] {
        guard encoding?.string == "base64" else { return Array(text.utf8) }
        guard let bytes = Base64.decode(text) else { throw .malformed("\(path).text is not base64") }
        return bytes
    }

    /// Whether the content is in a separate file, as Playwright can be configured to do.
    private static func isElsewhere(_ value: JSONValue) -> Bool { value["_file"] != nil || value["_sha1"] != nil }
}
