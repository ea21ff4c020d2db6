// An IP address as a number. Parsed strictly, so that all parsers agree on an address, and formatted by RFC 5952.

import HTTPCore

public struct IPAddress: Hashable, Sendable {
    public let isIPv6: Bool
    /// Two halves: a 16-byte integer would require 16-byte alignment, for which allocation in the C library is much slower.
    private let high: UInt64
    private let low: UInt64

    /// The address as a number; for IPv4 in the lowest 32 bits.
    public var number: UInt128 { UInt128(high) << 64 | UInt128(low) }

    public var bitCount: Int { isIPv6 ? 128 : 32 }

    /// An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) becomes the IPv4 address: dual-stack sockets report IPv4 clients like this.
    public init(ipv6 number: UInt128) {
        let isMapped = number >> 32 == 0xffff
        isIPv6 = !isMapped
        high = isMapped ? 0 : UInt64(number >> 64)
        low = isMapped ? UInt64(number & 0xffff_ffff) : UInt64(truncatingIfNeeded: number)
    }

    public init(ipv4 number: UInt32) {
        isIPv6 = false
        (high, low) = (0, UInt64(number))
    }

    /// - Parameter bytes: 4 or 16 bytes in network order.
    public init?(bytes: some Collection<UInt8>) {
        let number = bytes.reduce(UInt128(0)) { $0 << 8 | UInt128($1) }
        switch bytes.count {
        case 4: self.init(ipv4: UInt32(number))
        case 16: self.init(ipv6: number)
        default: return nil
        }
    }

    /// Parses `192.0.2.1` or `2001:db8::1`, without brackets, zone or port. Leading zeros in IPv4 are rejected, because some parsers read
    /// them as octal.
    public init?(_ text: some Collection<UInt8>) {
        // Maximum length of a textual address.
        guard text.count <= 45 else { return nil }
        let text = Array(text)
        if text.contains(UInt8(ascii: ":")) {
            guard let number = Self.ipv6(text[...]) else { return nil }
            self.init(ipv6: number)
        } else {
            guard let number = Self.ipv4(text[...]) else { return nil }
            self.init(ipv4: number)
        }
    }

    public init?(_ text: String) { self.init(text.utf8) }

    /// Returns the leading bits of the address.
    func prefix(_ count: Int) -> UInt128 { count == 0 ? 0 : number >> UInt128(bitCount - count) }

    /// Identifies one client: the address, or the /64 network of an IPv6 address.
    public var client: UInt128 { isIPv6 ? number | UInt128(UInt64.max) : number }

    /// Text of `client`: an address, or a /64 network for IPv6.
    public static func text(ofClient client: UInt128) -> String {
        if client == .max { return "unknown addresses" }
        let isIPv6 = client > UInt128(UInt32.max)
        let address = isIPv6 ? IPAddress(ipv6: (client >> 64) << 64) : IPAddress(ipv4: UInt32(client))
        return String(decoding: address.text, as: UTF8.self) + (isIPv6 ? "/64" : "")
    }

    /// Shorter form of `client`: the address, or the number of the /64 network for IPv6.
    public var clientNumber: UInt64 { UInt64(truncatingIfNeeded: isIPv6 ? number >> 64 : number) }

    private static func ipv4(_ text: ArraySlice<UInt8>) -> UInt32? {
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var number: UInt32 = 0
        for part in parts {
            guard (1...3).contains(part.count), part.allSatisfy(\.isASCIIDigit), part.count == 1 || part.first != 0x30
            else { return nil }
            let value = part.reduce(UInt32(0)) { $0 * 10 + UInt32($1 - 0x30) }
            guard value <= 255 else { return nil }
            number = number << 8 | value
        }
        return number
    }

    /// Parses IPv6 (RFC 4291 §2.2).
    private static func ipv6(_ text: ArraySlice<UInt8>) -> UInt128? {
        guard let gap = doubleColon(in: text) else {
            guard let groups = groups(text), groups.count == 8 else { return nil }
            return joined(groups)
        }
        let (before, after) = (text[..<gap], text[(gap + 2)...])
        guard let high = before.isEmpty ? [] : groups(before), let low = after.isEmpty ? [] : groups(after), high.count + low.count < 8,
            // Dotted IPv4 notation is permitted at the end only.
            !before.contains(UInt8(ascii: "."))
        else { return nil }
        return joined(high + [UInt16](repeating: 0, count: 8 - high.count - low.count) + low)
    }

    private static func doubleColon(in text: ArraySlice<UInt8>) -> Int? {
        text.indices.dropLast().first { text[$0] == UInt8(ascii: ":") && text[$0 + 1] == UInt8(ascii: ":") }
    }

    private static func joined(_ groups: [UInt16]) -> UInt128 { groups.reduce(0) { $0 << 16 | UInt128($1) } }

    private static func groups(_ text: ArraySlice<UInt8>) -> [UInt16]? {
        var groups: [UInt16] = []
        let parts = text.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            if part.contains(UInt8(ascii: ".")) {
                guard index == parts.count - 1, let number = ipv4(part) else { return nil }
                groups += [UInt16(number >> 16), UInt16(number & 0xffff)]
            } else {
                guard (1...4).contains(part.count) else { return nil }
                var value: UInt16 = 0
                for digit in part {
                    guard let digit = digit.hexValue else { return nil }
                    value = value << 4 | UInt16(digit)
                }
                groups.append(value)
            }
        }
        return groups.count <= 8 ? groups : nil
    }
}

extension IPAddress: CustomStringConvertible {
    public var description: String { String(decoding: text, as: UTF8.self) }

    public var text: [UInt8] {
        var out: [UInt8] = []
        guard isIPv6 else {
            out.reserveCapacity(16)
            for shift in [24, 16, 8, 0] as [UInt128] {
                out.append(decimal: Int(number >> shift & 0xff))
                if shift > 0 { out.append(UInt8(ascii: ".")) }
            }
            return out
        }
        out.reserveCapacity(40)
        let groups = (0..<8).map { UInt16(truncatingIfNeeded: number >> UInt128(112 - 16 * $0)) }
        let gap = Self.longestZeros(groups)
        for index in 0..<8 where !gap.contains(index) || index == gap.lowerBound {
            if index == gap.lowerBound, !gap.isEmpty {
                out.append("::")
                continue
            }
            if index > 0, index != gap.upperBound || gap.isEmpty { out.append(UInt8(ascii: ":")) }
            out += String(groups[index], radix: 16).utf8
        }
        return out
    }

    /// Returns the first of the longest runs of zeros with at least two groups; empty if there is none (RFC 5952 §4.2).
    private static func longestZeros(_ groups: [UInt16]) -> Range<Int> {
        var longest = 0..<0
        var start = 0
        for index in 0...8 where index == 8 || groups[index] != 0 {
            if index - start > max(1, longest.count) { longest = start..<index }
            start = index + 1
        }
        return longest
    }
}
