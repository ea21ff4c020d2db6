// Hosts in a Forwarded field (RFC 7239 §5.3) that Cistern forwards from a client or a proxy in front. An upstream may choose a tenant by
// them, as by X-Forwarded-Host. The other parameters of the field describe the origin of the request.

import HTTPCore

public enum ForwardedHosts {
    public static let field = Array("forwarded".utf8)
    public static let prefix = Array("x-forwarded-".utf8)
    public static let proxy = Array("x-forwarded-server".utf8)
    private static let name = Array("host".utf8)

    /// Returns each part of the value that may be a host parameter, with its length; empty if there is none. Parsers differ in their
    /// handling of quotes, so a quoted separator ends a part as well.
    public static func parts(of value: some Collection<UInt8>) -> [UInt8] {
        var parts: [UInt8] = []
        for part in value.split(whereSeparator: { $0 == UInt8(ascii: ";") || $0 == UInt8(ascii: ",") }) {
            let text = part.drop { !isTokenByte($0) }.map(\.asciiLowercased)
            if text.starts(with: name) { CacheKey.appendPart(text, to: &parts) }
        }
        return parts
    }
}
