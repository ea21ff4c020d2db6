// Tests of IP addresses and networks: parsing, rejection, and which network contains an address.

import Addresses
import Testing

@Suite("IP addresses")
struct IPAddressTests {
    @Test(
        "an address is parsed and written in canonical form",
        arguments: [
            ("192.0.2.1", "192.0.2.1"), ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"),
            ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("2001:DB8::1", "2001:db8::1"), ("2001:db8:0:0:0:0:0:1", "2001:db8::1"),
            ("2001:0db8:0000:1:0:0:0:0001", "2001:db8:0:1::1"), ("1:0:0:2:0:0:0:3", "1:0:0:2::3"), ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
            ("0:0:2:0:0:3:4:5", "::2:0:0:3:4:5"), ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("fe80::1:2:3:4", "fe80::1:2:3:4"),
            ("::ffff:192.0.2.1", "192.0.2.1"), ("::FFFF:c000:201", "192.0.2.1"), ("64:ff9b::192.0.2.33", "64:ff9b::c000:221"),
        ])
    func written(_ text: String, _ canonical: String) throws {
        let address = try #require(IPAddress(text))
        #expect(address.description == canonical)
        #expect(IPAddress(canonical) == address)
    }

    @Test(
        "an address that other parsers may read differently is refused",
        arguments: [
            "", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2..4", "0x1.2.3.4", "1.2.3.4/8", "1.2.3.-4",
            ":", ":1", "1:", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::1:2:3:4:5:6:7:8", "12345::", "g::", "::1%eth0",
            "[::1]", "1.2.3.4::", "::1.2.3.4:5", "::1.2.3.400", "1:2:3:4:5:6:7:1.2.3.4", "١.2.3.4",
            "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000",
        ])
    func refused(_ text: String) { #expect(IPAddress(text) == nil) }

    @Test("an IPv6 client is identified by its /64 network, and never equals an IPv4 address")
    func client() throws {
        let one = try #require(IPAddress("2001:db8:1:2:3::4"))
        let same = try #require(IPAddress("2001:db8:1:2::9"))
        let other = try #require(IPAddress("2001:db8:1:3:3::4"))
        #expect(one.client == same.client && one.client != other.client)
        let low = try #require(IPAddress("::1"))
        let four = try #require(IPAddress("0.0.0.1"))
        #expect(four.client != low.client)
    }

    @Test(
        "a network with bits set after its prefix is refused",
        arguments: [
            ("10.0.0.0/8", nil as String?), ("0.0.0.0/0", nil), ("::/0", nil), ("192.0.2.7", nil), ("2001:db8::/32", nil), ("::1/128", nil),
            ("10.0.0.1/8", "10.0.0.0/8"), ("2001:db8::1/64", "2001:db8::/64"), ("10.0.0.0/33", "0 to 32"), ("::/129", "0 to 128"),
            ("10.0.0.0/", "0 to 32"), ("10.0.0.0/+8", "0 to 32"), ("10.0.0.0/8/8", "0 to 32"), ("x/8", "not an address"),
            ("/8", "not an address"),
        ])
    func network(_ text: String, _ problem: String?) {
        do throws(IPNetwork.Problem) {
            let network = try IPNetwork(text)
            #expect(problem == nil && network.description == text.replacing("/128", with: ""))
        } catch {
            #expect(problem.map { error.description.contains($0) } ?? false, "\(error)")
        }
    }

    @Test("the network with the longest prefix determines the value of an address")
    func longest() throws {
        var table = NetworkTable<Int>()
        for (place, text) in ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32", "0.0.0.0/0"].enumerated() {
            table[try IPNetwork(text)] = place
        }
        let found = try ["10.9.9.9", "10.1.9.9", "10.1.2.3", "2001:db8::5", "192.0.2.1", "::1"].map {
            table.value(of: try #require(IPAddress($0)))
        }
        #expect(found == [0, 1, 2, 3, 4, nil])
    }

    @Test(
        "the longest matching prefix decides on access; without a match, access is allowed if no network is listed as allowed",
        arguments: [
            ([], [], true, true, true), (["10.0.0.0/8"], [], true, true, false), ([], ["10.0.0.0/8"], false, false, true),
            (["10.1.0.0/16"], ["10.0.0.0/8"], false, true, false), (["10.0.0.0/8"], ["10.1.0.0/16"], true, false, false),
            (["0.0.0.0/0"], ["10.1.0.0/16"], true, false, true),
        ] as [([String], [String], Bool, Bool, Bool)])
    func rules(_ allow: [String], _ deny: [String], _ ten: Bool, _ tenOne: Bool, _ other: Bool) throws {
        let rules = try AddressRules(allow: allow.map { try IPNetwork($0) }, deny: deny.map { try IPNetwork($0) })
        let addresses = try ["10.9.0.1", "10.1.0.1", "192.0.2.1"].map { try #require(IPAddress($0)) }
        #expect(addresses.map { rules.allow(.known($0)) } == [ten, tenOne, other])
        #expect(rules.allow(.local), "a client of a Unix socket has no address")
        #expect(rules.isEmpty == (allow + deny).isEmpty && rules.allow(.unknown) == rules.isEmpty)
    }

    @Test("a network that is both allowed and denied is an error")
    func both() throws {
        let network = try IPNetwork("10.0.0.0/8")
        #expect(throws: AddressRules.Ambiguity.self) { try AddressRules(allow: [network], deny: [network]) }
    }
}
