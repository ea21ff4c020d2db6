// Parses the PROXY protocol (haproxy.org, proxy-protocol.txt, versions 1 and 2). With it, a load balancer sends the client's address before
// the first byte of a connection.

import HTTPCore

public struct ProxyHeader: Sendable, Equatable {
    public struct Endpoint: Sendable, Equatable {
        public let address: IPAddress
        public let port: UInt16
    }

    /// Address and port of the client; nil for a connection of the balancer itself (LOCAL) or an unknown client (UNKNOWN, other address
    /// families).
    public let source: Endpoint?
    /// Whether the balancer forwards a client without giving its address. Such a client must not be treated as the balancer.
    public var isUnknown = false

    public enum Result: Sendable, Equatable {
        case needsMore
        /// - Parameter bytes: number of bytes of the header.
        case header(ProxyHeader, bytes: Int)
        case invalid
    }

    /// Maximum length of a version 1 header, including the line end.
    private static let lineLimit = 107
    /// Maximum length of a version 2 header after its first 16 bytes; no balancer sends more.
    private static let blockLimit = 4_096
    private static let signature: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]

    /// Maximum number of bytes needed to parse a header.
    public static let limit = 16 + blockLimit

    /// - Parameter bytes: the first bytes of the connection.
    public static func read(_ bytes: ArraySlice<UInt8>) -> Result {
        if bytes.prefix(signature.count).elementsEqual(signature.prefix(bytes.count)) {
            return bytes.count < 16 ? .needsMore : readBlock(bytes)
        }
        let start = Array("PROXY ".utf8)
        guard bytes.prefix(start.count).elementsEqual(start.prefix(bytes.count)) else { return .invalid }
        return readLine(bytes)
    }

    private static func readLine(_ bytes: ArraySlice<UInt8>) -> Result {
        guard let end = bytes.prefix(lineLimit).firstIndex(of: 0x0a) else { return bytes.count < lineLimit ? .needsMore : .invalid }
        guard end > bytes.startIndex, bytes[end - 1] == 0x0d else { return .invalid }
        let words = bytes[bytes.startIndex..<(end - 1)].split(separator: 0x20, omittingEmptySubsequences: false)
        let count = end + 1 - bytes.startIndex
        if words.count >= 2, words[1].elementsEqual("UNKNOWN".utf8) {
            return .header(ProxyHeader(source: nil, isUnknown: true), bytes: count)
        }
        guard words.count == 6, let source = IPAddress(words[2]), let destination = IPAddress(words[3]), let port = Self.port(words[4]),
            Self.port(words[5]) != nil
        else { return .invalid }
        let isIPv6 = words[1].elementsEqual("TCP6".utf8)
        guard isIPv6 || words[1].elementsEqual("TCP4".utf8) else { return .invalid }
        // TCP6 permits IPv4-mapped IPv6 addresses.
        guard isIPv6 || !source.isIPv6 && !destination.isIPv6 && !words[2].contains(0x3a) && !words[3].contains(0x3a),
            !isIPv6 || words[2].contains(0x3a) && words[3].contains(0x3a)
        else { return .invalid }
        return .header(ProxyHeader(source: Endpoint(address: source, port: port)), bytes: count)
    }

    private static func port(_ text: ArraySlice<UInt8>) -> UInt16? {
        guard (1...5).contains(text.count), text.allSatisfy({ (0x30...0x39).contains($0) }), text.count == 1 || text.first != 0x30
        else { return nil }
        return UInt16(String(decoding: text, as: UTF8.self))
    }

    private static func readBlock(_ bytes: ArraySlice<UInt8>) -> Result {
        let start = bytes.startIndex
        let (command, family) = (bytes[start + 12], bytes[start + 13])
        let length = Int(bytes[start + 14]) << 8 | Int(bytes[start + 15])
        guard command >> 4 == 2, command & 0xf <= 1, length <= blockLimit else { return .invalid }
        guard bytes.count >= 16 + length else { return .needsMore }
        // LOCAL: the balancer's own connection, such as a health check. Addresses that follow have no meaning.
        if command & 0xf == 0 { return .header(ProxyHeader(source: nil), bytes: 16 + length) }
        let block = bytes[(start + 16)..<(start + 16 + length)]
        let size: Int
        switch family {
        case 0x11: size = 4
        case 0x21: size = 16
        // Unspecified, Unix sockets and datagrams: no usable address is given.
        case 0x00, 0x12, 0x22, 0x31, 0x32: return .header(ProxyHeader(source: nil, isUnknown: true), bytes: 16 + length)
        default: return .invalid
        }
        guard block.count >= 2 * size + 4, let address = IPAddress(bytes: block.prefix(size)) else { return .invalid }
        let ports = block.startIndex + 2 * size
        let port = UInt16(block[ports]) << 8 | UInt16(block[ports + 1])
        return .header(ProxyHeader(source: Endpoint(address: address, port: port)), bytes: 16 + length)
    }
}
