// One entry of an HTTP archive (HAR 1.2), as a browser or proxy recorded it, made into a request and its response; or why it cannot be stored.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache

/// Why an archived response was left out. The raw value is what the administrator is told.
enum NotImportedReason: String, Error, CaseIterable {
    case malformed
    case method
    case otherOrigin = "other_origin"
    /// A secret that belongs to the key was taken out when the archive was made.
    case redacted
    /// It belongs to a partition, and the archive does not hold the credentials that lead there.
    case partition
    case noContent = "no_content"
    case invalidJSON = "invalid_json"
    case olderThanStored = "older_than_stored"
    /// A write has changed what it is of since it was archived.
    case invalidated
}

extension ArchivedResponse {
    /// - Parameters:
    ///   - origins: what may stand before the target, scheme and host with a base path. In lower case but for the path.
    ///   - isShared: credentials are left out, so that the response is for everybody.
    ///   - now: milliseconds since 1970: what claims to come from later came now.
    init(_ entry: JSONValue, origins: [String], isShared: Bool, settings: CachePolicySettings, now: Int64) throws(NotImportedReason) {
        guard let request = entry["request"], let response = entry["response"], let url = request["url"]?.string,
            let status = response["status"]?.integer, (200...599).contains(status)
        else { throw .malformed }
        guard request["method"]?.string == "GET" else { throw .method }
        if let partition = entry["_partition"]?.string, !partition.isEmpty, !isShared { throw .partition }
        let target = try Self.target(url, origins)
        var fields = try Self.fields(request["headers"])
        if isShared { for name in settings.credentials.fields { fields.remove(named: Array(name.utf8).span) } }
        let redaction = Array(SecretNames.redaction.utf8)
        for index in 0..<fields.count where fields.value(at: index).elementsEqual(redaction) { throw .redacted }
        // What the client's own cache held says nothing of what is stored here.
        for field in [KnownField.ifNoneMatch, .ifModifiedSince, .cacheControl, .pragma] { fields.remove(field) }
        let head = RequestHead(method: .get, target: RequestTarget.escaped(Array(target.utf8)[...]), version: .http11, fields: fields)
        var kept = try Self.fields(response["headers"]).removingHopByHop()
        let isDecoded = ContentCoding(kept) != .identity || entry["_cistern"]?["decoded"] == true
        for field in [KnownField.contentLength, .transferEncoding, .setCookie, .setCookie2] { kept.remove(field) }
        if !kept.contains(.contentType), let type = response["content"]?["mimeType"]?.string, Self.isValue(type) {
            kept.append(.contentType, type)
        }
        let start = min(now, entry["startedDateTime"]?.string.flatMap { RFC3339.parse($0) } ?? now)
        let end = min(now, start + Int64(max(0, min(entry["time"]?.double ?? 0, 3_600_000))))
        self.init(
            request: head, response: ResponseHead(status: Status(rawValue: UInt16(status)), fields: kept),
            content: try Self.content(response["content"], mayBeEmpty: status == 410), isDecoded: isDecoded,
            requestTime: Timestamp(milliseconds: start),
            responseTime: Timestamp(milliseconds: end))
        origin.isAuthorized = entry["_cistern"]?["authorized"] == true
        origin.isStale = entry["_cistern"]?["stale"] == true
    }

    private static func target(_ url: String, _ origins: [String]) throws(NotImportedReason) -> String {
        for origin in origins where url.utf8.count >= origin.utf8.count {
            let head = String(decoding: Array(url.utf8).prefix(origin.utf8.count), as: UTF8.self)
            guard head.lowercased() == origin.lowercased() else { continue }
            var rest = String(decoding: Array(url.utf8).dropFirst(origin.utf8.count).prefix { $0 != UInt8(ascii: "#") }, as: UTF8.self)
            if rest.isEmpty || rest.hasPrefix("?") { rest = "/" + rest }
            guard rest.hasPrefix("/") else { continue }
            guard rest.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else { throw .malformed }
            guard !rest.contains("=" + SecretNames.redaction) else { throw .redacted }
            return rest
        }
        throw .otherOrigin
    }

    /// Those that can be sent; an archive of HTTP/2 has others too.
    private static func fields(_ headers: JSONValue?) throws(NotImportedReason) -> Fields {
        var fields = Fields()
        for header in headers?.array ?? [] {
            guard let name = header["name"]?.string, let value = header["value"]?.string else { throw .malformed }
            guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte), isValue(value) else { continue }
            fields.append(name: name, value: value)
        }
        return fields
    }

    private static func isValue(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 } }

    /// - Parameter mayBeEmpty: what is gone for good needs no content to say so.
    private static func content(_ content: JSONValue?, mayBeEmpty: Bool) throws(NotImportedReason) -> [UInt8] {
        guard let text = content?["text"]?.string, !text.isEmpty else {
            if mayBeEmpty { return [] }
            throw .noContent
        }
        guard content?["encoding"]?.string == "base64" else { return Array(text.utf8) }
        guard let bytes = Base64.decode(text) else { throw .malformed }
        return bytes
    }
}
