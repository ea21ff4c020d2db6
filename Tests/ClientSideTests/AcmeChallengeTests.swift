// Tests of ACME challenge responses, by which an authority verifies a name (RFC 8555 §8.3).

import CacheStore
import ReverseProxy
import TestSupport
import Testing

@Suite("ACME HTTP-01 challenges", .play)
struct AcmeChallengeTests {
    private static let path = "/.well-known/acme-challenge/"

    @Test("challenge files are served from the directory to any client, and no other file is", .clientProtocols)
    func files() throws {
        let directory = TestTools.temporaryDirectory()
        try TestTools.write("token-1.key", to: directory.path + "/token-1")
        try TestTools.write("secret", to: directory.path + "/.hidden")
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("\"upstream\"")] }) { $0.listening.challengeDirectory = directory.path }
        // More requests than may wait at once: each one releases its slot.
        for _ in 0..<100 {
            let response = try play.get(Self.path + "token-1")
            #expect(response.status == 200 && response.text == "token-1.key")
        }
        #expect(try play.get(Self.path + "token-2").status == 404)
        for target in [Self.path + "../token-1", Self.path + ".hidden", Self.path + "%2e%2e%2ftoken-1", Self.path] {
            #expect(try play.get(target).text != "secret")
        }
        #expect(!play.origin.requests.contains { $0.target == Self.path + "token-1" })
    }
}
