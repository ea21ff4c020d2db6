// Hosts that a Forwarded field names (RFC 7239 §5.3), where the upstream gets the field as a client or a proxy in front sent it: an upstream may choose
// a tenant by them, as by X-Forwarded-Host. All else in the field says where the request came from.

import HTTPCore

public enum ForwardedHosts {
    private static let name = Array("host".utf8)

    /// Every part of the value that may be a host parameter, each with its length; empty if there is none. Readers differ in what they quote, so
    /// quotes end no part.
    public static func parts(of value: some Collection<UInt8>) -> [UInt8] {
        var parts: [UInt8] = []
        for part in value.split(whereSeparator: { $0 == UInt8(ascii: ";") || $0 == UInt8(ascii: ",") }) {
            let text = part.drop { !isTokenByte($0) }.map(\.asciiLowercased)
            if text.starts(with: name) { CacheKey.appendPart(text, to: &parts) }
        }
        return parts
    }
}
