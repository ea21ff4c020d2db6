// Tests of an upstream that sends surplus bytes, with a store and two users. No user gets another user's bytes, and none are stored under a
// wrong key.

import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Isolation of interleaved responses", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct StrayBytesPlayTests {
    /// A response that names its user and target.
    private static func response(_ user: String, _ target: String) -> String {
        let content = "{\"user\":\"\(user)\",\"target\":\"\(target)\"}"
        return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\n"
            + "Content-Length: \(content.utf8.count)\r\n\r\n" + content
    }

    private static let stray = response("mallory", "/stray")

    /// The right response with surplus bytes, in separate pieces or together.
    private static func pieces(_ right: String, _ way: Int) -> [String] {
        let end = right.firstRange(of: "\r\n\r\n")?.upperBound ?? right.endIndex
        let (head, content) = (String(right[..<end]), String(right[end...]))
        return switch way % 6 {
        case 0: [right + stray]
        case 1: [head, content + stray]
        case 2: [head, content, stray]
        case 3: [right, right]
        case 4: [head, String(content.prefix(3)), String(content.dropFirst(3)) + "H"]
        default: [right]
        }
    }

    @Test("two users on shared connections each receive and store only their own responses", arguments: [false, true])
    func users(isTLS: Bool) throws {
        let counter = Counter()
        let origin = ScriptedOrigin(tls: isTLS ? SharedCertificates.tls : nil) { request in
            let user = request["Authorization"]?.split(separator: " ").last.map(String.init) ?? "nobody"
            return [.records(Self.pieces(Self.response(user, request.target), counter.next()))]
        }
        let play = try ProxyPlay(origin) {
            $0.upstream.isTLS = isTLS
            if isTLS { $0.upstream.caFile = SharedCertificates.authority }
            $0.upstream.maximumConnections = 2
            $0.upstream.failure.threshold = 10_000
        }
        let clients = try ["alice", "bob"].map { ($0, try play.client()) }
        var right = 0
        for number in 0..<60 {
            for (user, client) in clients {
                client.send("GET /items/\(number % 20) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(user)\r\n\r\n")
            }
            for (user, client) in clients {
                let answer = try #require(client.readResponse())
                // A response with surplus bytes may be refused, but a delivered one must be right.
                guard answer.status == 200 else { continue }
                #expect(answer.text == "{\"user\":\"\(user)\",\"target\":\"/items/\(number % 20)\"}")
                right += 1
            }
        }
        #expect(right > 10)
        origin.down()
        // The origin is down, so these responses come from the store.
        for number in 0..<20 {
            for (user, client) in clients {
                let answer = try #require(client.get("/items/\(number)", [("Authorization", "Bearer \(user)")]))
                guard answer.status == 200 else { continue }
                #expect(answer.text == "{\"user\":\"\(user)\",\"target\":\"/items/\(number)\"}")
            }
        }
        #expect(try play.get("/stray").status >= 500)
        #expect(try #require(try play.metric("cistern_upstream_connections_ended_total{cause=\"surplus\"}")) > 0)
    }
}
