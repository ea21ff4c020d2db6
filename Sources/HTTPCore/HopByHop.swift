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

    /// Without what Connection names and may take away; nil where that changes nothing. The next hop never sees those fields: so nothing
    /// that is decided of a request, least of all its key, may depend on them.
    public func removingNamed() -> Fields? {
        guard contains(.connection), !connectionIs("keep-alive") else { return nil }
        let named = NamedFields(self)
        let isTaken = { (entry: Entry) in !Self.always.holds(entry) && isNamed(entry, by: named) }
        return entries.contains(where: isTaken) ? Fields(bytes: bytes, entries: entries.filter { !isTaken($0) }) : nil
    }

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
            let names = FieldLists.members(of: .connection, in: fields, limit: FieldListLimit.members + 1)
            self = names.count > FieldListLimit.members ? .all : .these(names)
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
