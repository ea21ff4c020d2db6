// Converts an entry of an HTTP archive (HAR 1.2) into a request and a response, or explains why it cannot be stored.

import Archives
import CachePolicy
import HTTPCore
import JSON
import ResponseCache

/// Why an archived response was not imported. The raw value is part of the admin interface.
enum NotImportedReason: String, Error {
    case malformed
    case method
    case otherOrigin = "other_origin"
    /// The path is not routed to the API.
    case otherPath = "other_path"
    /// The API of the export does not exist here.
    case unknownAPI = "unknown_api"
    /// More than one API matches.
    case ambiguousAPI = "ambiguous_api"
    /// The archive lacks a secret that is part of the cache key.
    case redacted
    /// The response belongs to a partition, and the archive lacks the credentials.
    case partition
    /// The content coding is not supported.
    case contentCoding = "content_coding"
    case noResponse = "no_response"
    case webSocket = "websocket"
    case noContent = "no_content"
    case cutContent = "cut_content"
    case contentElsewhere = "content_elsewhere"
    case olderThanStored = "older_than_stored"
    /// A write has changed the resource after the archive was made.
    case invalidated
}

extension NotImportedReason {
    /// Whether another API may still accept the response.
    var isOfAPI: Bool { self == .otherOrigin || self == .otherPath }
}

extension ArchivedResponse {
    /// - Parameters:
    ///   - origins: accepted prefixes of the URL: scheme, host and base path.
    ///   - strippedPath: prefix of clients' paths that the upstream does not see.
    ///   - isShared: removes credentials, so that the response is public.
    ///   - now: milliseconds since 1970. Later times in the archive are replaced by it.
    init(
        _ entry: JSONValue, origins: [String], strippedPath: [UInt8] = [], isShared: Bool, settings: CachePolicySettings, now: Int64
    ) throws(NotImportedReason) {
        let exchange = try Self.exchange(entry)
        guard exchange.method.elementsEqual("GET".utf8) else { throw .method }
        if let partition = entry["_partition"]?.string, !partition.isEmpty, !isShared { throw .partition }
        let target = (strippedPath + (try Self.target(exchange.url, origins)))[...]
        var fields = exchange.requestFields
        if isShared {
            for name in (0..<fields.count).map({ Array(fields.name(at: $0)) }) where settings.credentials.names.contains(name.span) {
                fields.remove(named: name.span)
            }
        }
        for index in 0..<fields.count where Self.isRedacted(fields.value(at: index)) { throw .redacted }
        // Conditional fields refer to the recorded client's cache, not to this store.
        for field in [KnownField.ifNoneMatch, .ifModifiedSince, .cacheControl, .pragma] { fields.remove(field) }
        let head = RequestHead(method: .get, target: target, version: .http11, fields: fields)
        var kept = exchange.response.fields.removingHopByHop()
        guard exchange.isDecoded || ContentCoding(kept) == .identity else { throw .contentCoding }
        // A shared import declares that the responses suit all clients.
        let credentials = isShared ? Fields() : Self.credentials(entry, kept)
        for field in [KnownField.contentLength, .transferEncoding, .setCookie, .setCookie2] { kept.remove(field) }
        // A link with a redacted argument would be broken, so the response is rejected. Fields that are entirely redacted are removed.
        for index in 0..<kept.count where Self.hasRedactedArgument(kept.value(at: index)) { throw .redacted }
        for name in (0..<kept.count).filter({ Self.isRedacted(kept.value(at: $0)) }).map({ Array(kept.name(at: $0)) }) {
            kept.remove(named: name.span)
        }
        // A 410 is useful without content.
        guard !exchange.content.isEmpty || exchange.response.status == 410 else { throw .noContent }
        let start = min(now, exchange.started ?? now)
        self.init(
            request: head, response: ResponseHead(status: exchange.response.status, fields: kept), content: exchange.content,
            isDecoded: exchange.isDecoded, requestTime: Timestamp(milliseconds: start),
            responseTime: Timestamp(milliseconds: min(now, start + exchange.duration)))
        origin.isAuthorized = entry["_cistern"]?["authorized"] == true
        origin.isStale = entry["_cistern"]?["stale"] == true
        origin.startsSession = entry["_cistern"]?["starts_session"] == true
        origin.isConcealed = entry["_cistern"]?["open"] == false
        self.credentials = credentials
    }

    /// Fields that gave credentials to the recorded client. Some recorders give cookies in `cookies` only.
    private static func credentials(_ entry: JSONValue, _ response: Fields) -> Fields {
        var given = ResponseCredentials.all(in: response)
        guard !given.contains(.setCookie) else { return given }
        for cookie in entry["response"]?["cookies"]?.array ?? [] {
            let text = "\(cookie["name"]?.string ?? "")=\(cookie["value"]?.string ?? "")"
            // A cookie that cannot be a field value counts too.
            given.append(.setCookie, text.utf8.allSatisfy(isFieldValueByte) ? text : SecretNames.redaction)
        }
        return given
    }

    private static func exchange(_ entry: JSONValue) throws(NotImportedReason) -> ArchivedExchange {
        do throws(ArchiveFault) {
            return try ArchivedExchange(entry)
        } catch {
            switch error {
            case .malformed: throw .malformed
            case .unusable(.noResponse): throw .noResponse
            case .unusable(.webSocket): throw .webSocket
            case .unusable(.noContent): throw .noContent
            case .unusable(.cutContent): throw .cutContent
            case .unusable(.contentElsewhere): throw .contentElsewhere
            }
        }
    }

    private static func target(_ url: String, _ origins: [String]) throws(NotImportedReason) -> ArraySlice<UInt8> {
        for origin in origins {
            guard let target = ArchiveOrigin(origin)?.target(of: url) else { continue }
            guard ArchiveOrigin.canBeSent(target) else { throw .malformed }
            guard !hasRedactedArgument(target) else { throw .redacted }
            return RequestTarget.escaped(target[...])
        }
        throw .otherOrigin
    }

    private static func hasRedactedArgument(_ text: some Sequence<UInt8>) -> Bool {
        String(decoding: Array(text), as: UTF8.self).contains("=" + SecretNames.redaction)
    }

    /// Whether the value ends with the placeholder. Recordings keep the scheme of Authorization.
    private static func isRedacted(_ value: ArraySlice<UInt8>) -> Bool {
        value.suffix(SecretNames.redaction.utf8.count).elementsEqual(SecretNames.redaction.utf8)
    }
}
