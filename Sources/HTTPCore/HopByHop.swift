// Fields that concern one connection only and are not passed on (RFC 9110 §7.6.1).

extension Fields {
    private static let always: [KnownField] = [
        .connection, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthenticationInfo, .proxyAuthorization, .te, .trailer,
        .transferEncoding, .upgrade, .http2Settings,
    ]

    /// What a sender may not take away by naming it in Connection: without these the message would mean something else.
    private static let protected: Set<KnownField> = [
        .host, .authorization, .cacheControl, .contentLength, .contentType, .contentEncoding, .contentRange, .contentLocation, .cookie,
        .setCookie,
        .date, .etag, .expires, .age, .vary, .location, .range, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .ifRange,
        .pragma,
        .via, .forwarded, .xForwardedFor, .lastModified, .origin, .cdnLoop, .maxForwards, .expect, .wwwAuthenticate, .xAPIKey,
    ]

    /// Without the fields of the connection, and without those that its Connection field names.
    package func removingHopByHop() -> Fields {
        guard Self.always.contains(where: contains) else { return self }
        let named = FieldLists.members(of: .connection, in: self)
        let kept = entries.filter { entry in
            if let known = entry.known {
                if Self.always.contains(known) { return false }
                if Self.protected.contains(known) { return true }
            }
            guard !named.isEmpty else { return true }
            let name = bytes[entry.nameRange]
            return !named.contains { $0.equalsIgnoringCase(name) }
        }
        return Fields(bytes: bytes, entries: kept)
    }

    /// Whether Connection names `option` (RFC 9110 §7.6.1), such as `close`.
    package func connectionNames(_ option: StaticString) -> Bool {
        contains(.connection) && FieldLists.members(of: .connection, in: self).contains { $0.equalsIgnoringCase(option) }
    }
}
