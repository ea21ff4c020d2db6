// Tests of the encoding of takeover messages, and of invalid bytes.

import TakeOver
import Testing

@Suite("Take-over messages")
struct MessageTests {
    private static let table = PassedModes.Table(
        all: "offline", routes: ["a": "live", "b": "bypass"],
        prefixes: [.init(prefix: "/long", mode: "live"), .init(prefix: "/", mode: "x")])

    private static let all: [TakeOverMessage] = [
        .hello(Greeting(dialogue: 7, storeFormat: 8, process: 9, version: "1.2")), .prepared(listeners: []), .prepared(listeners: [0, 3]),
        .failed("no"), .acknowledged(1 << 40), .refused("why"),
        .listener(HandedListener(wanted: "127.0.0.1:80", isAdmin: true, sockets: 2)), .activated(name: "web"), .store, .takeOverListener,
        .ticketKeys([1, 2, 3]), .offered, .committed(HandedPosition(segment: 3, offset: 1 << 33)), .begin,
        .modes(PassedModes(api: "users", initial: .init(all: "live"), now: table)), .faults([]),
        .faults([
            PassedFault(
                number: 3, path: "/**", percent: 50, end: -1, leastDelay: 2, longestDelay: .max, kind: "status", argument: 503)
        ]),
        .counts(Array("a 1\n".utf8)), .change(.item(key: [1], metadata: [], head: [2, 3], body: [], retention: 2)),
        .change(.removal(low: .max, high: 1)), .change(.staleMark(low: 1, high: .max)), .change(.clearing), .change(.staleAll),
        .change(.purge(milliseconds: -5)), .change(.identities(tokens: [[1, 2], [3]], isLost: true)),
        .change(.identities(tokens: [], isLost: false)),
    ]

    @Test("a message round-trips, and a truncated or longer one is rejected", arguments: all)
    func bytes(message: TakeOverMessage) {
        let bytes = message.bytes
        #expect(TakeOverMessage(bytes) == message)
        #expect(TakeOverMessage(bytes + [0]) == nil)
        for count in bytes.indices { #expect(TakeOverMessage(Array(bytes[..<count])) == nil) }
    }

    @Test("a process reads all messages of its own version and earlier ones")
    func versions() {
        func isAtLeast(_ version: String, _ other: String) -> Bool {
            Greeting(storeFormat: 1, process: 1, version: version).isAtLeast(other)
        }
        #expect(isAtLeast("0.2.0", "0.2.0") && isAtLeast("0.10.0", "0.9.9") && isAtLeast("1.0.0-rc1", "1.0.0"))
        #expect(!isAtLeast("0.1.9", "0.2.0") && !isAtLeast("0.9.9", "0.10.0"))
    }

    @Test("reading any bytes terminates")
    func anything() {
        #expect(TakeOverMessage([]) == nil)
        #expect(TakeOverMessage([99, 0, 0, 0]) == nil)
        for kind in 0..<20 as Range<UInt8> {
            _ = TakeOverMessage([kind, 0, 0, 0] + [UInt8](repeating: 0xff, count: 64))
            _ = TakeOverMessage([kind, 0, 0, 0] + [UInt8](repeating: 0, count: 64))
        }
    }
}
