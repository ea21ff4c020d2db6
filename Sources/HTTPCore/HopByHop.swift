// Fields that concern one connection only and are not passed on (RFC 9110 §7.6.1).

extension Fields {
    private static let always: KnownFieldSet = [
        .connection, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthenticationInfo, .proxyAuthorization, .te, .trailer,
        .transferEncoding, .upgrade, .http2Settings,
    ]

    /// What a sender may not take away by naming it in Connection: without these the message would mean something else.
    private static let protected: KnownFieldSet = [
        .host, .authorization, .cacheControl, .contentLength, .contentType, .contentEncoding, .contentRange, .contentLocation, .cookie,
        .setCookie,
        .date, .etag, .expires, .age, .vary, .location, .range, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .ifRange,
        .pragma,
        .via, .forwarded, .xForwardedFor, .lastModified, .origin, .cdnLoop, .maxForwards, .expect, .wwwAuthenticate, .xAPIKey,
    ]

    /// Without the fields of the connection, and without those that its Connection field names.
    package func removingHopByHop() -> Fields {
        guard containsAny(of: Self.always) else { return self }
        let named = FieldLists.members(of: .connection, in: self)
        let (always, protected) = (Self.always, Self.protected)
        let kept = entries.filter { entry in
            if let known = entry.known {
                if always.contains(known) { return false }
                if protected.contains(known) { return true }
            }
            guard !named.isEmpty else { return true }
            let name = bytes[entry.nameRange]
            return !named.contains { $0.equalsIgnoringCase(name) }
        }
        return Fields(bytes: bytes, entries: kept)
    }

    /// Whether Connection names `option` (RFC 9110 §7.6.1), such as `close`.
    package func connectionNames(_ option: StaticString) -> Bool {
        guard contains(.connection) else { return false }
        for entry in entries where entry.known == .connection {
            let value = bytes.span.extracting(entry.valueRange)
            // Mostly it is the only one.
            if value.equalsIgnoringCase(option) { return true }
            guard value.count > option.utf8CodeUnitCount else { continue }
            if FieldLists.members(of: bytes[entry.valueRange]).contains(where: { $0.equalsIgnoringCase(option) }) { return true }
        }
        return false
    }
}
