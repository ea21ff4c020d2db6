// What a request's connection says of its client, put beside the request's own fields: so that it goes wherever they go, and counts for keys and
// credentials as they do. A client cannot send such a field, since no name that is parsed has a space in it; and none goes out.

public enum ConnectionField {
    /// Whom the client's certificate is for: what is hashed of it, in hexadecimal digits; then, where the certificate itself is sent on, a space
    /// and the value of Client-Cert (RFC 9440).
    public static let certificate = "client certificate"
    /// `https`, where requests come in clear too and the upstream gets to know which is which.
    public static let scheme = "client scheme"

    static let names = [certificate, scheme].map { Array($0.utf8) }

    /// Whether a field is one of these.
    public static func isName(_ name: Span<UInt8>) -> Bool { names.contains { $0.count == name.count && name.isReadAsName($0.span) } }
}

extension Fields {
    /// Whether `ConnectionField.scheme` is among what was put beside a request's own fields: behind those.
    public var areMarkedSecure: Bool {
        let name = ConnectionField.scheme.utf8
        return entries.suffix(ConnectionField.names.count).contains {
            $0.nameRange.count == name.count && bytes[$0.nameRange].elementsEqual(name)
        }
    }
}

extension RequestHead {
    /// The same request with more fields.
    public func adding(_ more: [(name: String, value: [UInt8])]) -> RequestHead {
        var fields = fields
        for (name, value) in more { fields.append(name: Array(name.utf8).span, value: value.span) }
        return replacing(fields: fields)
    }

    /// The same request as it would have come by the other scheme.
    public var byOtherScheme: RequestHead {
        let name = ConnectionField.scheme.utf8
        let others = fields.entries.filter { !fields.bytes[$0.nameRange].elementsEqual(name) }
        guard others.count == fields.count else {
            return replacing(fields: Fields(bytes: fields.bytes, entries: others))
        }
        return adding([(ConnectionField.scheme, Array("https".utf8))])
    }
}
