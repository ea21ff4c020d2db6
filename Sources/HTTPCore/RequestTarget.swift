// Parses request targets and Host (RFC 9112 §3.2, RFC 9110 §7.2): the four forms of targets, and the authority, which must be unique.

/// The parts of a request target, as slices of the head.
public struct RequestTarget {
    public enum Form: Sendable, Equatable { case origin, absolute, authority, asterisk }

    public var form: Form
    /// Path and query as received. `/` if an absolute target has no path; empty for the authority form.
    public var pathAndQuery: ArraySlice<UInt8>
    /// Authority of an absolute or authority target; nil for other forms.
    public var authority: ArraySlice<UInt8>?
    /// True for an absolute target with https, false with http; nil for other forms.
    public var isSecure: Bool?

    public init?(_ target: ArraySlice<UInt8>, method: Method) {
        if target.first == UInt8(ascii: "/") {
            self.init(form: .origin, pathAndQuery: target, authority: nil)
        } else if target.elementsEqual([UInt8(ascii: "*")]) {
            self.init(form: .asterisk, pathAndQuery: target, authority: nil)
        } else if method == .connect {
            self.init(form: .authority, pathAndQuery: [], authority: target)
        } else {
            self.init(absolute: target)
        }
    }

    private init(form: Form, pathAndQuery: ArraySlice<UInt8>, authority: ArraySlice<UInt8>?) {
        self.form = form
        self.pathAndQuery = pathAndQuery
        self.authority = authority
    }

    private init?(absolute target: ArraySlice<UInt8>) {
        for scheme: StaticString in ["http://", "https://"] {
            let count = scheme.utf8CodeUnitCount
            guard target.count > count, target.prefix(count).equalsIgnoringCase(scheme) else { continue }
            let rest = target.dropFirst(count)
            let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
            guard end > rest.startIndex else { return nil }
            var path = rest[end...]
            if path.isEmpty { path = [UInt8(ascii: "/")] } else if path.first == UInt8(ascii: "?") { path = [UInt8(ascii: "/")] + path }
            self.init(form: .absolute, pathAndQuery: path, authority: rest[..<end])
            isSecure = count == "https://".utf8.count
            return
        }
        return nil
    }

    /// Percent-encodes bytes outside of ASCII (RFC 3986 §2.1), whether they are UTF-8 or not, because some clients send them raw (HTTP-RPC
    /// for Java). RFC 9112 §3 recommends rejecting such targets, because servers may read them differently. Here every later reader
    /// receives plain ASCII.
    /// - Parameter isTyped: true for text typed by a person, where a space means `%20`. Requests with a space are rejected.
    public static func escaped(_ target: ArraySlice<UInt8>, isTyped: Bool = false) -> ArraySlice<UInt8> {
        let digits: StaticString = "0123456789ABCDEF"
        var out: [UInt8] = []
        out.reserveCapacity(target.count + 32)
        for byte in target {
            guard byte >= 0x80 || (isTyped && (byte <= 0x20 || byte == 0x7f)) else {
                out.append(byte)
                continue
            }
            out.append(UInt8(ascii: "%"))
            out.append(digits.utf8Start[Int(byte >> 4)])
            out.append(digits.utf8Start[Int(byte & 15)])
        }
        return out[...]
    }

    /// Fast check for the usual case: a path, and one Host that consists of letters, digits, dots, hyphens and a port.
    static func isPlain(_ request: RequestHead) -> Bool {
        guard request.target.first == UInt8(ascii: "/"), request.method != .connect else { return false }
        var hosts = 0
        let fields = request.fields
        for entry in fields.entries where entry.known == .host {
            hosts += 1
            let value = fields.bytes.span.extracting(entry.valueRange)
            guard value.count > 0 else { return false }
            var index = 0
            while index < value.count {
                let byte = value[index]
                guard byte.isASCIILetter || byte.isASCIIDigit || byte == 0x2e || byte == 0x2d else { break }
                index += 1
            }
            guard index > 0, index == value.count || isPort(value, from: index) else { return false }
        }
        return hosts == 1
    }

    /// Rejects what RFC 9112 §3.2 requires to be rejected, and invalid Host values.
    static func check(_ request: RequestHead) throws(RequestRejection) {
        guard let target = RequestTarget(request.target, method: request.method) else {
            throw .malformed("The request target must be a path, or a whole http or https URI.")
        }
        switch target.form {
        case .asterisk where request.method != .options: throw .malformed("Only OPTIONS may have * as its target.")
        case .origin where request.method == .connect: throw .malformed("CONNECT needs a host and port as its target.")
        default: break
        }
        let hosts = request.fields.all(.host)
        guard hosts.count <= 1 else { throw .host("The request has more than one Host field.") }
        guard let host = hosts.first else {
            guard request.version == .http10 else { throw .host("The request has no Host field.") }
            if let authority = target.authority { try checkAuthority(authority) }
            return
        }
        if let authority = target.authority {
            try checkAuthority(authority)
            guard host.equalsIgnoringCase(authority) else { throw .host("The Host field and the request target name different hosts.") }
        }
        try checkAuthority(host)
    }

    /// Validates uri-host [":" port] (RFC 9110 §7.2, RFC 3986 §3.2.2): a name, an IPv4 address, or an IPv6 address in brackets.
    private static func checkAuthority(_ authority: ArraySlice<UInt8>) throws(RequestRejection) {
        let host = authority.span
        guard host.count > 0, host.count <= 261 else { throw .host("The host is empty or too long.") }
        var index = 0
        if host[0] == UInt8(ascii: "[") {
            index = 1
            var colons = 0
            while index < host.count, host[index].hexValue != nil || host[index] == UInt8(ascii: ":") || host[index] == UInt8(ascii: ".") {
                if host[index] == UInt8(ascii: ":") { colons += 1 }
                index += 1
            }
            guard index < host.count, host[index] == UInt8(ascii: "]"), colons >= 2, colons <= 7 else {
                throw .host("The host is not valid.")
            }
            index += 1
        } else {
            while index < host.count, isNameByte(host[index]) { index += 1 }
            guard index > 0 else { throw .host("The host is not valid.") }
        }
        guard index == host.count || isPort(host, from: index) else { throw .host("The host is not valid.") }
    }

    /// Accepts the unreserved characters. Sub-delims are rejected, because a comma would form a list; `%` is rejected, because it only
    /// hides other characters.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        if byte.isASCIILetter || byte.isASCIIDigit { return true }
        switch byte {
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): return true
        default: return false
        }
    }

    /// Accepts ":" and a number up to 65535, or ":" alone (RFC 3986 §3.2.3 permits an empty port).
    private static func isPort(_ host: Span<UInt8>, from colon: Int) -> Bool {
        guard host[colon] == UInt8(ascii: ":"), host.count - colon <= 6 else { return false }
        var port = 0
        for index in (colon + 1)..<host.count {
            guard host[index].isASCIIDigit else { return false }
            port = port * 10 + Int(host[index] - 0x30)
        }
        return port <= 65_535
    }
}

extension RequestTarget {
    /// Returns path and query; the target itself if it is invalid.
    static func pathAndQuery(of target: ArraySlice<UInt8>, _ method: Method) -> ArraySlice<UInt8> {
        if target.first == UInt8(ascii: "/") { return target }
        return RequestTarget(target, method: method)?.pathAndQuery ?? target
    }
}

extension RequestHead {
    /// The requested host: that of an absolute target, else of the Host field. Empty if there is none.
    public var host: ArraySlice<UInt8> {
        if target.first != UInt8(ascii: "/"), let authority = RequestTarget(target, method: method)?.authority { return authority }
        return fields.first(.host) ?? []
    }
}
