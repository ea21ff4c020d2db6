// Addresses are parsed as by the C library, and a network contains exactly its addresses. Whatever a client writes into forwarding fields,
// the entries that trusted proxies append count.

import Addresses
import Glibc
import HTTPCore

enum AddressesProperty {
    /// Each line is an address, a network, and a line of each forwarding field.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let lines = bytes.split(separator: 0x0a).filter { $0.allSatisfy(isFieldValueByte) }.map { Array($0.trimmed) }
        for line in lines {
            try checkAddress(line)
            try checkNetwork(String(decoding: line, as: UTF8.self))
        }
        for field in ForwardedField.allCases { try checkForwarded(lines, field) }
    }

    private static func checkAddress(_ text: [UInt8]) throws(Violation) {
        let address = IPAddress(text)
        var space = in6_addr()
        let family = text.contains(UInt8(ascii: ":")) ? AF_INET6 : AF_INET
        let isAddress = inet_pton(family, String(decoding: text, as: UTF8.self), &space) == 1
        try expect((address != nil) == isAddress, "the C library takes \(text) for another address")
        guard let address else { return }
        let known = withUnsafeBytes(of: space) { IPAddress(bytes: $0.prefix(family == AF_INET ? 4 : 16)) }
        try expect(address == known && IPAddress(address.text) == address, "\(address) is another")
    }

    private static func checkNetwork(_ text: String) throws(Violation) {
        guard let network = try? IPNetwork(text) else { return }
        try expect((try? IPNetwork(network.description)) == network, "\(network) is read as another")
        let list = NetworkList([network])
        try expect(list.contains(network.address), "\(network) does not hold its own address")
        let bits = network.address.bitCount
        if network.prefixBits < bits, let last = address(like: network.address, network.address.number | 1) {
            try expect(list.contains(last), "\(network) does not hold \(last)")
        }
        let neighbour = network.address.number ^ 1 << UInt128(bits - network.prefixBits)
        if network.prefixBits > 0, let other = address(like: network.address, neighbour) {
            try expect(!list.contains(other), "\(network) holds \(other)")
        }
    }

    /// nil if the number is an address of the other family.
    private static func address(like one: IPAddress, _ number: UInt128) -> IPAddress? {
        let other = one.isIPv6 ? IPAddress(ipv6: number) : IPAddress(ipv4: UInt32(truncatingIfNeeded: number))
        return other.isIPv6 == one.isIPv6 ? other : nil
    }

    // MARK: Forwarded

    private static let peer = IPAddress(ipv4: 0x0a00_0001)
    private static let trusted = NetworkList([(try? IPNetwork("10.0.0.0/8"))].compactMap(\.self))

    private static func client(_ lines: [[UInt8]], _ field: ForwardedField) -> ForwardedClient {
        var fields = Fields()
        let name = field == .forwarded ? "Forwarded" : "X-Forwarded-For"
        for line in lines { fields.append(name: Array(name.utf8).span, value: line.span) }
        return ForwardedClient(fields, from: .known(peer), field, trusted: trusted)
    }

    private static func checkForwarded(_ lines: [[UInt8]], _ field: ForwardedField) throws(Violation) {
        let whole = client(lines, field)
        if let address = whole.address.address, !trusted.contains(address), let first = lines.first {
            for lie in field == .forwarded ? ["for=6.6.6.6", "for=\"[::1]\";proto=https"] : ["6.6.6.6", "junk\"", "[::1]:80"] {
                try expect(client([Array(lie.utf8)] + lines, field) == whole, "a preceding line changes the client")
                let longer = [Array("\(lie), ".utf8) + first] + lines.dropFirst()
                try expect(client(longer, field) == whole, "preceding members change the client")
            }
        }
        guard field != .forwarded || !lines.contains(where: { $0.contains(UInt8(ascii: "\"")) }) else { return }
        guard !lines.isEmpty else { return }
        try expect(client([Array(lines.joined(separator: Array(", ".utf8)))], field) == whole, "several lines differ from one list")
    }
}
