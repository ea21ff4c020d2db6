// Removes fields that concern a single connection and must not be forwarded (RFC 9110 §7.6.1).

extension Fields {
    private static let always: KnownFieldSet = [
        .connection, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthenticationInfo, .proxyAuthorization, .te, .trailer,
        .transferEncoding, .upgrade, .http2Settings,
    ]

    /// Fields that a sender cannot remove by naming them in Connection. Without them, the message would have another meaning, or would
    /// appear to come from another client.
    private static let protected: KnownFieldSet = [
        .xForwardedHost, .xForwardedPort, .xForwardedPrefix, .xForwardedScheme, .xForwardedServer, .xRealIP, .trueClientIP, .xRequestID,
        .traceparent, .tracestate, .cisternKey, .cisternMode, .cisternWhy, .xHost, .xOriginalURL, .xRewriteURL, .frontEndHTTPS,
        .host, .authorization, .cacheControl, .contentLength, .contentType, .contentEncoding, .contentRange, .contentLocation, .cookie,
        .setCookie,
        .date, .etag, .expires, .age, .vary, .location, .range, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .ifRange,
        .pragma,
        .via, .forwarded, .xForwardedFor, .xForwardedProto, .lastModified, .origin, .cdnLoop, .maxForwards, .expect, .wwwAuthenticate,
        .xAPIKey,
    ]

    /// Returns the fields without hop-by-hop fields, and without those that Connection names.
    public func removingHopByHop() -> Fields {
        var kept = self
        kept.removeHopByHop()
        return kept
    }

    /// Removes hop-by-hop fields, and those that Connection names.
    public mutating func removeHopByHop() {
        guard containsAny(of: Self.always) else { return }
        // Fast path: usually Connection contains only Keep-Alive, which is a hop-by-hop field anyway.
        if contains(.connection), !connectionIs("keep-alive") {
            let named = NamedFields(self)
            self = Fields(bytes: bytes, entries: entries.filter { !Self.always.holds($0) && !isNamed($0, by: named) })
        } else {
            remove(allOf: Self.always)
        }
    }

    /// Returns the fields without those that Connection names and may remove; nil if that changes nothing. The next hop never receives
    /// those fields, so no decision about the request, especially its cache key, may depend on them. Afterwards Connection names only
    /// hop-by-hop fields, so fields that are added later are not removed.
    /// - Parameter isKept: whether a named field is kept nevertheless, such as a credential added by a proxy in front of Cistern.
    public func removingNamed(keeping isKept: (_ name: Span<UInt8>) -> Bool) -> Fields? {
        guard contains(.connection), !connectionIs("keep-alive"), !connectionIs("close") else { return nil }
        let named = NamedFields(self)
        guard named.isAny else { return nil }
        let kept = entries.filter { entry in
            guard entry.known != .connection else { return false }
            guard !Self.always.holds(entry), isNamed(entry, by: named) else { return true }
            return isKept(bytes.span.extracting(entry.nameRange))
        }
        let options = Self.options.filter { connectionNames($0) }
        guard !options.isEmpty else { return Fields(bytes: bytes, entries: kept) }
        var fields = Fields(bytes: bytes, entries: kept)
        fields.append(.connection, options.map { "\($0)" }.joined(separator: ", "))
        return fields
    }

    /// Options that concern the connection itself.
    private static let options: [StaticString] = ["close", "keep-alive", "upgrade", "te", "http2-settings"]

    private func isNamed(_ entry: Entry, by named: NamedFields) -> Bool {
        if let known = entry.known, Self.protected.contains(known) { return false }
        switch named {
        case .these(let names):
            guard !names.isEmpty else { return false }
            let name = bytes[entry.nameRange]
            return names.contains { $0.equalsIgnoringCase(name) }
        case .all: return true
        }
    }

    /// The fields that Connection names.
    private enum NamedFields {
        case these([ArraySlice<UInt8>])
        /// The list exceeds the limit. All removable fields are then removed, so that none is forwarded against the sender's intent.
        case all

        init(_ fields: Fields) {
            let members = FieldLists.members(of: .connection, in: fields, limit: FieldListLimit.members + 1)
            guard members.count <= FieldListLimit.members else {
                self = .all
                return
            }
            // RFC 9110 §7.6.1: an option is a token. Words with a space between them name no field.
            self = .these(
                members.filter { member in
                    member.allSatisfy(isTokenByte) && !Fields.options.contains { member.equalsIgnoringCase($0) }
                })
        }

        /// Whether a field is named that does not concern the connection itself.
        var isAny: Bool {
            switch self {
            case .these(let names): !names.isEmpty
            case .all: true
            }
        }
    }

    /// Returns whether Connection consists of `option` only.
    private func connectionIs(_ option: StaticString) -> Bool {
        for entry in entries where entry.known == .connection {
            guard bytes.span.extracting(entry.valueRange).equalsIgnoringCase(option) else { return false }
        }
        return true
    }

    /// Returns whether Connection contains `option` (RFC 9110 §7.6.1), such as `close`.
    public func connectionNames(_ option: StaticString) -> Bool {
        guard contains(.connection) else { return false }
        for entry in entries where entry.known == .connection {
            let value = bytes.span.extracting(entry.valueRange)
            // Usually there is a single option.
            if value.equalsIgnoringCase(option) { return true }
            guard value.count > option.utf8CodeUnitCount, value.first(UInt8(ascii: ",")) != nil else { continue }
            var position = 0
            while position < value.count {
                let end = FieldMembers.endOfMember(in: value, from: position)
                let member = value.extracting(position..<end)
                if member.extracting(member.trimmedRange).equalsIgnoringCase(option) { return true }
                position = end + 1
            }
        }
        return false
    }
}

extension ResponseHead {
    /// Returns the head without hop-by-hop fields.
    public func removingHopByHop() -> ResponseHead {
        var head = self
        head.fields.removeHopByHop()
        return head
    }
}
