// Tests of the syntax of addresses, and of limits per address.

import Addresses
import CSystem
import Glibc
import Reactor
import Testing

@testable import Downstream

@Suite("Addresses and limits")
struct AddressTests {
    @Test(
        "listen addresses are parsed and invalid ones rejected",
        arguments: [
            ("127.0.0.1:80", .ipv4(host: "127.0.0.1", port: 80)), (":8080", .ipv4(host: "0.0.0.0", port: 8080)),
            ("localhost:1", .ipv4(host: "127.0.0.1", port: 1)), ("[::1]:0", .ipv6(host: "::1", port: 0)),
            ("unix:/run/a", .unix(path: "/run/a")), ("unix:", nil), ("unix:/\(String(repeating: "a", count: 107))", nil),
            ("127.0.0.1", nil), ("127.0.0.1:65536", nil), ("127.0.0.1:-1", nil), ("::1:80", nil), ("[::1]", nil), ("[gg]:1", nil),
            ("1.2.3:80", nil), ("example.com:80", nil), ("", nil), (":", nil),
        ] as [(String, ListenAddress?)])
    func written(text: String, wanted: ListenAddress?) {
        #expect(ListenAddress(text) == wanted)
        if let wanted, text.hasPrefix("[") || text.hasPrefix("unix") || text.hasPrefix("127") { #expect("\(wanted)" == text) }
    }

    @Test("a listen address may have a scheme")
    func scheme() {
        #expect(ListenerSettings("http://127.0.0.1:80") == ListenerSettings(.ipv4(host: "127.0.0.1", port: 80)))
        for text in ["http://", "http://unknown:80", "ftp://127.0.0.1:80"] { #expect(ListenerSettings(text) == nil) }
    }

    @Test(
        "the start report contains a URL that clients can use",
        arguments: [
            ("127.0.0.1:0", "http://127.0.0.1:4711"), ("https://[::1]:0", "https://[::1]:4711"),
            ("https://127.0.0.1:0", "https://127.0.0.1:4711"), ("unix:/run/a", "unix:/run/a"),
        ])
    func urls(text: String, url: String) throws {
        let listener = try #require(ListenerSettings(text))
        #expect(listener.url(at: listener.address.withPort(4_711)) == url)
    }

    /// A client's address in the kernel's format.
    private func peer(_ address: ListenAddress) -> PeerAddress {
        var storage = sockaddr_storage()
        address.withSocketAddress { source, length in
            withUnsafeMutableBytes(of: &storage) { $0.copyMemory(from: UnsafeRawBufferPointer(start: source, count: Int(length))) }
        }
        return PeerAddress(storage)
    }

    @Test("a client address is read from the kernel's socket address")
    func peers() {
        #expect(peer(.ipv4(host: "10.1.2.3", port: 5)).address?.description == "10.1.2.3")
        #expect(peer(.ipv4(host: "10.1.2.3", port: 500)).port == 500)
        #expect(peer(.ipv6(host: "2001:db8::5", port: 5)).address?.description == "2001:db8::5")
        #expect(peer(.unix(path: "/a")).address == nil && peer(.unix(path: "/a")).port == 0)
    }

    @Test("connections are limited in total and per address")
    func budget() {
        var settings = DownstreamSettings()
        settings.maximumConnections = 3
        settings.connectionsPerAddress = 1
        let budget = ConnectionBudget(settings)
        let (one, two) = (peer(.ipv4(host: "10.0.0.1", port: 1)), peer(.ipv4(host: "10.0.0.2", port: 1)))
        #expect(budget.take() && budget.admit(one))
        #expect(budget.take() && !budget.admit(one))
        budget.giveBack()
        #expect(budget.take() && budget.admit(two))
        #expect(budget.take() && budget.admit(peer(.unix(path: "/a"))))
        #expect(!budget.take())
        budget.giveBack(one)
        #expect(budget.take() && budget.admit(one))
        #expect(budget.rejectedConnections == 1)
    }

    @Test("connections of trusted proxies are not limited per address")
    func trusted() throws {
        var settings = DownstreamSettings()
        settings.connectionsPerAddress = 1
        settings.trustedProxies = NetworkList([try IPNetwork("10.0.0.0/8")])
        let budget = ConnectionBudget(settings)
        for _ in 0..<3 { #expect(budget.admit(peer(.ipv4(host: "10.0.0.1", port: 1)))) }
        #expect(budget.admit(peer(.ipv4(host: "192.0.2.1", port: 1))) && !budget.admit(peer(.ipv4(host: "192.0.2.1", port: 2))))
        #expect(budget.rejectedConnections == 1)
    }
}

@Suite("Reading ahead for a slow client")
struct ReadAheadTests {
    /// A client of a Unix socket. It has no address.
    private let client = PeerAddress(nil, port: 0)

    @Test("half of the memory is for reading ahead, and one client may use a sixteenth of the remainder")
    func parts() {
        var settings = DownstreamSettings()
        settings.unsentLimitBytes = 512 << 20
        let budget = ConnectionBudget(settings)
        #expect(budget.mayReadAhead(holding: 16 << 20, for: client) && !budget.mayReadAhead(holding: 17 << 20, for: client))
        #expect(budget.hold(240 << 20, of: client))
        #expect(budget.mayReadAhead(holding: 1 << 20, for: client) && !budget.mayReadAhead(holding: 2 << 20, for: client))
        #expect(budget.hold(16 << 20, of: client))
        #expect(!budget.mayReadAhead(holding: 0, for: client))
        // Required memory is still granted.
        #expect(budget.hold(200 << 20, of: client) && budget.cut == 0)
    }

    @Test("without a limit reading ahead is always allowed")
    func unlimited() {
        var settings = DownstreamSettings()
        settings.unsentLimitBytes = 0
        #expect(ConnectionBudget(settings).mayReadAhead(holding: .max, for: client))
    }
}

@Suite("The output queue of a connection")
struct OutputQueueTests {
    /// A pair of connected sockets with small buffers.
    private func pair() -> (Int32, Int32) {
        var both: [Int32] = [0, 0]
        socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0, &both)
        return (both[0], both[1])
    }

    private final class Owner {
        let bytes: [UInt8]
        init(_ bytes: [UInt8]) { self.bytes = bytes }
    }

    @Test("copied and borrowed bytes arrive in order, however many the kernel accepts at a time")
    func order() {
        let (socket, far) = pair()
        let near = ClientTransport(Descriptor(socket))
        defer { close(far) }
        let body = (0..<900_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let owner = Owner(body)
        var queue = OutputQueue()
        var received: [UInt8] = []
        owner.bytes.withUnsafeBytes { bytes in
            let borrowed = WholeBody.borrowed(bytes, owner: owner)
            Array("head".utf8).withUnsafeBytes { queue.append($0) }
            queue.append(borrowed, from: 10)
            Array("next".utf8).withUnsafeBytes { queue.append($0) }
            queue.append(borrowed, from: body.count - 3)
            queue.append(borrowed, from: body.count)
            #expect(queue.count == 4 + body.count - 10 + 4 + 3)
            var piece = [UInt8](repeating: 0, count: 50_000)
            while case .sent = queue.send(to: near) {
                let count = recv(far, &piece, piece.count, 0)
                guard count > 0 else { break }
                received += piece[..<count]
            }
        }
        #expect(queue.isEmpty == true)
        #expect(received == Array("head".utf8) + body[10...] + Array("next".utf8) + body.suffix(3))
    }

    @Test("sent bytes release their memory even if more is appended before the queue is empty")
    func memory() {
        let (socket, far) = pair()
        let near = ClientTransport(Descriptor(socket))
        defer { close(far) }
        var queue = OutputQueue()
        let piece = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        var space = [UInt8](repeating: 0, count: 50_000)
        var received = 0
        for _ in 0..<1_000 {
            piece.withUnsafeBytes { queue.append($0) }
            while queue.count > 300_000 {
                _ = queue.send(to: near)
                let count = recv(far, &space, space.count, 0)
                guard count > 0 else { break }
                #expect(space[0] == piece[received % piece.count])
                received += count
            }
            #expect(!queue.isEmpty && queue.heldBytes < 600_000)
        }
    }

    @Test("the memory of a small sent piece can be reused once, and that of a large one is released")
    func spent() {
        let (socket, far) = pair()
        let near = ClientTransport(Descriptor(socket))
        defer { close(far) }
        var queue = OutputQueue()
        for (count, isKept) in [(100, true), (20_000, false)] {
            queue.append(piece: [UInt8](repeating: 1, count: count))
            #expect(queue.takeSpent() == nil)
            _ = queue.send(to: near)
            #expect(queue.isEmpty == true)
            #expect((queue.takeSpent() != nil) == isKept)
            #expect(queue.takeSpent() == nil)
        }
    }

    @Test("a closed peer is detected without SIGPIPE")
    func gone() {
        let (socket, far) = pair()
        let near = ClientTransport(Descriptor(socket))
        close(far)
        var queue = OutputQueue()
        [UInt8](repeating: 1, count: 10).withUnsafeBytes { queue.append($0) }
        guard case .broken = queue.send(to: near) else {
            Issue.record("the peer counts as connected")
            return
        }
    }

    /// Content that is not in memory until it is loaded.
    private final class Disk: ContentMemory {
        var isRead = false

        func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) -> Bool { isRead }
        func load(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void) {}
    }

    @Test("borrowed content that is not in memory is loaded before it is sent")
    func onDisk() {
        let (socket, far) = pair()
        let near = ClientTransport(Descriptor(socket))
        defer { close(far) }
        let owner = Owner([UInt8](repeating: 7, count: 100_000))
        let disk = Disk()
        var queue = OutputQueue()
        owner.bytes.withUnsafeBytes { bytes in
            Array("head".utf8).withUnsafeBytes { queue.append($0) }
            queue.append(.borrowed(bytes, owner: owner), from: 1_000)
            guard case .onDisk(let wanted, let whose) = queue.send(to: near, disk) else {
                Issue.record("data was sent to a closed peer")
                return
            }
            #expect(whose === owner && wanted.count == 99_000 && wanted.baseAddress == bytes.baseAddress! + 1_000)
            // The content that was in memory has been sent.
            #expect(queue.count == 99_000)
            disk.isRead = true
            guard case .sent = queue.send(to: near, disk) else {
                Issue.record("no data was sent")
                return
            }
            #expect(queue.count < 99_000)
        }
    }
}
