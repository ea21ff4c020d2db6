// Authentication schemes that authenticate a connection instead of a request (RFC 4559 §6). After the handshake, the server attributes
// every request on the connection to its user, also requests without credentials. Such a connection must never carry another client's
// request.

public enum ConnectionAuthentication {
    /// What a response states about such a scheme.
    public enum Challenge: Sendable, Equatable {
        /// The server offers the scheme. The connection has no user yet.
        case offered
        /// The server has sent handshake data: the connection has a user, or will have one soon.
        case underWay
    }

    /// Names in lower case. CredSSP and Nego2 are Microsoft's successors of Negotiate.
    private static let schemes: [[UInt8]] = ["negotiate", "ntlm", "kerberos", "credssp", "nego2"].map { Array($0.utf8) }
    private static let requestFields: KnownFieldSet = [.authorization, .proxyAuthorization]
    private static let responseFields: KnownFieldSet = [
        .wwwAuthenticate, .proxyAuthenticate, .authenticationInfo, .proxyAuthenticationInfo,
    ]

    /// Returns whether a request's credentials use such a scheme.
    public static func isUsed(by fields: Fields) -> Bool {
        fields.containsAny(of: requestFields) && challenge(in: fields, requestFields) != nil
    }

    /// Returns what a response states about such a scheme; nil if it names none.
    public static func challenge(in fields: Fields) -> Challenge? {
        fields.containsAny(of: responseFields) ? challenge(in: fields, responseFields) : nil
    }

    private static func challenge(in fields: Fields, _ names: KnownFieldSet) -> Challenge? {
        var found: Challenge?
        for entry in fields.entries where names.holds(entry) {
            switch challenge(in: fields.bytes.span.extracting(entry.valueRange)) {
            case .underWay: return .underWay
            case .offered: found = .offered
            case nil: break
            }
        }
        return found
    }

    /// Each part between commas may begin with a scheme (RFC 9110 §11.6.1), also within a quoted string: servers parse those differently.
    private static func challenge(in value: Span<UInt8>) -> Challenge? {
        var found: Challenge?
        var position = 0
        while position < value.count {
            let end = index(in: value, from: position) { $0 == UInt8(ascii: ",") }
            if let challenge = challenge(inPart: value.extracting(position..<end)) {
                if challenge == .underWay { return challenge }
                found = challenge
            }
            position = end + 1
        }
        return found
    }

    private static func challenge(inPart part: Span<UInt8>) -> Challenge? {
        // Skips quotes and bytes that some servers treat as white space. A no-break space is white space for servers that read fields as
        // Latin-1.
        let start = index(in: part, from: 0) { $0.isLetterOrDigit }
        let schemeEnd = index(in: part, from: start) { !$0.isLetterOrDigit }
        let scheme = part.extracting(start..<schemeEnd)
        guard schemes.contains(where: { scheme.equalsIgnoringCase($0.span) }) else { return nil }
        // A parameter with such a name is not a scheme.
        if schemeEnd < part.count, part[schemeEnd] == UInt8(ascii: "=") { return nil }
        let rest = index(in: part, from: schemeEnd) { isSpace($0) }
        return index(in: part, from: rest) { !isSpace($0) } < part.count ? .underWay : .offered
    }

    private static func index(in bytes: Span<UInt8>, from start: Int, where isEnd: (UInt8) -> Bool) -> Int {
        var position = start
        while position < bytes.count, !isEnd(bytes[position]) { position += 1 }
        return position
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}

extension UInt8 {
    fileprivate var isLetterOrDigit: Bool { isASCIIDigit || (0x61...0x7a).contains(self | 0x20) }
}
