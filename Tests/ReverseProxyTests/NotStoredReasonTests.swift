// Every reason for not storing is one that an exchange can have: a way to each, and the compiler asks for that of a new one.

import CachePolicy
import Downstream
import HTTPCore
import JSON
import TestSupport
import Testing

@testable import ReverseProxy

/// One exchange whose response is not stored.
private struct NotStoredWay {
    var method = "GET"
    var target = "/a"
    var fields: [(String, String)] = []
    var content: String?
    var response: [OriginStep] = [.json("{}")]
    var settings: (inout ProxySettings) -> Void = { _ in }
    /// What is asked for while the upstream has not responded.
    var meanwhile: (method: String, fields: [(String, String)])?

    /// A request.
    init(_ method: String = "GET", _ fields: [(String, String)] = [], content: String? = nil) {
        (self.method, self.fields, self.content) = (method, fields, content)
    }

    /// A response, and what is set otherwise.
    init(_ response: OriginStep..., settings: @escaping (inout ProxySettings) -> Void = { _ in }) {
        (self.response, self.settings) = (response, settings)
    }

    /// The content of a POST on a route that keeps by it.
    init(keptByContent content: String) {
        self.init("POST", [("Content-Type", "application/json")], content: content)
        settings = {
            ($0.otherRoute.methods, $0.otherRoute.contentLimitBytes) = ([.post], 100)
            ($0.downstream.requestBufferBytes, $0.downstream.requestBuffersBytes) = (300, 230)
        }
    }

    init(meanwhile method: String, _ fields: [(String, String)] = []) { meanwhile = (method, fields) }

    /// A table: one line for each. nil: only what an archive brings has that reason.
    init?(to reason: NotStoredReason) {
        switch reason {
        case .methodNotCacheable: self.init("POST", content: "{}")
        case .requestContent: self.init("GET", content: "{}")
        case .longContent: self.init(keptByContent: "[\(String(repeating: "1,", count: 60))1]")
        case .changingContent: self.init(keptByContent: "{\"query\":\"mutation { a }\"}")
        case .unreadContent: self.init(keptByContent: "[\(String(repeating: "1,", count: 120))1]")
        case .connectionUser: self.init("GET", [("Authorization", "Negotiate a")])
        case .rangeRequest: self.init("GET", [("Range", "bytes=0-0")])
        case .preconditions: self.init("GET", [("If-Match", "\"a\"")])
        case .requestNoStore: self.init("GET", [("Cache-Control", "no-store")])
        case .userUnknown:
            self.init("GET", [("Cookie", "locale=en")])
            response = [.json("{}", ["Cache-Control: private"])]
        case .oneTimeCredentials: self.init("GET", [("Authorization", "AWS4-HMAC-SHA256 Credential=a, Signature=b")])
        case .authorized:
            self.init("GET", [("Authorization", "Bearer a")])
            settings = { $0.policy.credentials.fields = [] }
        case .notAllowed: self.init("OPTIONS", [("Origin", "https://a.test"), ("Access-Control-Request-Method", "PUT")])
        case .outdated: self.init(meanwhile: "GET", [("Cache-Control", "no-cache")])
        case .storeRefused: self.init(meanwhile: "PUT")
        case .status: self.init(.json("{}", status: "404 Not Found"))
        case .setCookie: self.init(.json("{}", ["Set-Cookie: a=1"])) { $0.policy.setCookie = .refuse }
        case .noContent: self.init(.send("HTTP/1.1 204 No Content\r\n\r\n"))
        // One that was asked for is not stored for that; one that was not is no response.
        case .partial: return nil
        case .noStore: self.init(.json("{}", ["Cache-Control: no-store"]))
        case .privateResponse: self.init(.json("{}", ["Cache-Control: private"]))
        case .varyStar: self.init(.json("{}", ["Vary: *"]))
        case .tooManyMembers: self.init(.json("{}", ["Cache-Groups: " + (0..<129).map { "\"\($0)\"" }.joined(separator: ",")]))
        case .contentType: self.init(.answer("<p>", type: "text/html"))
        case .contentCoding: self.init(.json("{}", ["Content-Encoding: compress"]))
        case .tooLarge: self.init(.json("[1,2,3,4,5,6]")) { $0.content.bufferLimitBytes = 10 }
        case .invalidJSON: self.init(.json("{"))
        case .empty: self.init(.json(""))
        case .unprovenEnd: self.init(.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n1"), .close)
        case .undecodable: self.init(.json("x", ["Content-Encoding: gzip"]))
        case .tooDeep: self.init(.json(String(repeating: "[", count: 600) + String(repeating: "]", count: 600)))
        case .notGood: self.init(.json("{}")) { $0.otherRoute.good.minimumBytes = 100 }
        case .notKept: self.init(.json("{}")) { $0.otherRoute.kept.minimumBytes = 100 }
        case .graphQLError:
            self.init(.json("{\"errors\":[1]}"))
            target = "/a?query=%7Ba%7D"
        case .stream: self.init(.answer("data: 1\n\n", type: "text/event-stream"))
        }
    }
}

@Suite("Each reason for not storing", .play)
struct NotStoredReasonTests {
    @Test("is one that an exchange has, and why it has it is told", arguments: NotStoredReason.allCases)
    func each(_ reason: NotStoredReason) throws {
        guard let way = NotStoredWay(to: reason) else { return }
        let gate = Gate()
        let (response, waits, counter) = (way.response, way.meanwhile != nil, Counter())
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                counter.next() == 1 ? (waits ? [.pass(gate)] : []) + response : [.json("2", ["Cache-Control: max-age=60"])]
            }, way.settings)
        if let meanwhile = way.meanwhile {
            let slow = try play.client()
            slow.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(play.origin.waitForRequests(1))
            _ = try play.request(meanwhile.method, "/a", meanwhile.fields)
            gate.open()
            #expect(slow.readResponse()?.status == 200)
        } else {
            _ = try play.request(way.method, way.target, way.fields, content: way.content)
        }
        let told = JSONValue(try play.admin("GET", "/-/why?last=2").content)?["exchanges"]?.array ?? []
        let said = told.compactMap { $0["not_stored"]?.string }
        #expect(said.contains(reason.rawValue), "\(said)")
    }
}
