// Properties of the client's connection, stored as pseudo-fields with the request's fields, so that cache keys and credentials include
// them. Their names contain a space, so clients cannot send them, and they are never forwarded.

public enum ConnectionField {
    /// Identity of the client certificate: a hash of its names or of its key, in hexadecimal digits. If the certificate is forwarded, a
    /// space and the value of Client-Cert (RFC 9440) follow.
    public static let certificate = "client certificate"
    /// `https`, if requests also arrive without TLS and the upstream is informed of the scheme.
    public static let scheme = "client scheme"

    static let names = [certificate, scheme].map { Array($0.utf8) }

    /// Returns whether a field is a pseudo-field.
    public static func isName(_ name: Span<UInt8>) -> Bool { names.contains { $0.count == name.count && name.isReadAsName($0.span) } }
}

extension Fields {
    /// Whether `ConnectionField.scheme` is present. Pseudo-fields are at the end of a request's fields.
    public var areMarkedSecure: Bool {
        let name = ConnectionField.scheme.utf8
        return entries.suffix(ConnectionField.names.count).contains {
            $0.nameRange.count == name.count && bytes[$0.nameRange].elementsEqual(name)
        }
    }
}

extension RequestHead {
    /// Returns the request with additional fields.
    public func adding(_ more: [(name: String, value: [UInt8])]) -> RequestHead {
        var fields = fields
        for (name, value) in more { fields.append(name: Array(name.utf8).span, value: value.span) }
        return replacing(fields: fields)
    }

    /// The request as if it had arrived by the other scheme.
    public var byOtherScheme: RequestHead {
        let name = ConnectionField.scheme.utf8
        let others = fields.entries.filter { !fields.bytes[$0.nameRange].elementsEqual(name) }
        guard others.count == fields.count else {
            return replacing(fields: Fields(bytes: fields.bytes, entries: others))
        }
        return adding([(ConnectionField.scheme, Array("https".utf8))])
    }
}
