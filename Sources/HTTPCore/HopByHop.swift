// Fields that concern one connection only and are not passed on (RFC 9110 §7.6.1).

extension Fields {
    private static let always: KnownFieldSet = [
        .connection, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthenticationInfo, .proxyAuthorization, .te, .trailer,
        .transferEncoding, .upgrade, .http2Settings,
    ]

    /// What a sender may not take away by naming it in Connection: without these the message would mean something else, or would seem to come from
    /// another client.
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

    /// Without the fields of the connection, and without those that its Connection field names.
    public func removingHopByHop() -> Fields {
        guard containsAny(of: Self.always) else { return self }
        var kept = self
        kept.removeHopByHop()
        return kept
    }

    /// The same in place.
    public mutating func removeHopByHop() {
        guard containsAny(of: Self.always) else { return }
        // Mostly Connection names Keep-Alive alone, which is of the connection in any case.
        if contains(.connection), !connectionIs("keep-alive") {
            let named = NamedFields(self)
            self = Fields(bytes: bytes, entries: entries.filter { !Self.always.holds($0) && !isNamed($0, by: named) })
        } else {
            remove(allOf: Self.always)
        }
    }

    /// Without the fields that Connection names and may take away; nil if that changes nothing. The next hop never sees those fields, so nothing that
    /// is decided of a request, least of all its key, may depend on them. Afterwards Connection names fields of the connection only: fields that are added
    /// later are never taken for named ones.
    /// - Parameter isKept: whether a field stays although it is named, such as a credential that a proxy in front of Cistern has added.
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

    /// What Connection names.
    private enum NamedFields {
        case these([ArraySlice<UInt8>])
        /// More than is read: then all that it may take away is taken away, so that nothing goes on that was not to.
        case all

        init(_ fields: Fields) {
            let members = FieldLists.members(of: .connection, in: fields, limit: FieldListLimit.members + 1)
            guard members.count <= FieldListLimit.members else {
                self = .all
                return
            }
            // RFC 9110 §7.6.1: an option is a token. Words with a space between them name nothing.
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

    /// Whether Connection names `option` and nothing else.
    private func connectionIs(_ option: StaticString) -> Bool {
        for entry in entries where entry.known == .connection {
            guard bytes.span.extracting(entry.valueRange).equalsIgnoringCase(option) else { return false }
        }
        return true
    }

    /// Whether Connection names `option` (RFC 9110 §7.6.1), such as `close`.
    public func connectionNames(_ option: StaticString) -> Bool {
        guard contains(.connection) else { return false }
        for entry in entries where entry.known == .connection {
            let value = bytes.span.extracting(entry.valueRange)
            // Mostly there is only one.
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
    /// Without what concerns the connection.
    public func removingHopByHop() -> ResponseHead {
        var head = ResponseHead(status: status, reason: reason, fields: fields.removingHopByHop())
        head.version = version
        return head
    }

    /// The same in place.
    public mutating func removeHopByHop() { fields.removeHopByHop() }
}
