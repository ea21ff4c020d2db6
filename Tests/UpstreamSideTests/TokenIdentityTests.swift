// Tests of users with refreshed tokens: each user finds stored responses with any of their tokens, and never another user's.

import CacheStore
import HTTPCore
import Identity
import ReverseProxy
import TestSupport
import Testing

/// A route with verified tokens, and an origin that responds with the received request.
private final class TokenPlay {
    private let keysDirectory = TestTools.temporaryDirectory()
    let issuer = TokenIssuer()
    let play: ProxyPlay

    init(_ change: @escaping (inout RouteTokens) -> Void = { _ in }) throws {
        let keys = keysDirectory.path + "/keys"
        try TestTools.write(#"{"keys":[\#(issuer.jwk())]}"#, to: keys)
        let origin = ScriptedOrigin { request in
            [.json(#"{"token":"\#(request["Authorization"]?.suffix(12) ?? "none")"}"#, ["Cache-Control: private, max-age=3600"])]
        }
        play = try ProxyPlay(origin) { settings in
            var tokens = RouteTokens()
            tokens.keys = keys
            (tokens.settings.issuers, tokens.settings.audiences) = (["https://id.example"], ["api"])
            change(&tokens)
            settings.otherRoute.tokens = tokens
        }
    }

    func writeKeys(_ issuers: TokenIssuer...) throws {
        try TestTools.write(#"{"keys":[\#(issuers.map { $0.jwk() }.joined(separator: ","))]}"#, to: keysDirectory.path + "/keys")
    }

    var now: Int64 { play.time.wallMilliseconds / 1000 }

    private var made = 0

    func claims(_ user: String = "ann", seconds: Int64 = 300, audience: String = "api", _ more: String = "\"scope\":\"read write\"")
        -> String
    {
        made += 1
        return #"{"iss":"https://id.example","aud":"\#(audience)","sub":"\#(user)","exp":\#(now + seconds),"jti":"\#(made)",\#(more)}"#
    }

    func token(_ user: String = "ann", seconds: Int64 = 300) -> String { issuer.token(claims(user, seconds: seconds)) }

    func get(_ token: String, _ more: [(String, String)] = [], _ target: String = "/me") throws -> TestResponse {
        try play.get(target, [("Authorization", "Bearer \(token)")] + more)
    }

    func text(of token: String) -> String { #"{"token":"\#(token.suffix(12))"}"# }
}

@Suite("Users identified by signed tokens", .play)
struct TokenIdentityPlays {
    @Test("a refreshed token finds the responses of the previous one, fresh and in an outage")
    func refreshed() throws {
        let user = try TokenPlay()
        let first = user.token()
        #expect(try user.get(first).text == user.text(of: first))
        #expect(try user.get(user.token(seconds: 900)).text == user.text(of: first))
        #expect(user.play.origin.requests.count == 1)
        user.play.time.advance(by: .seconds(4_000))
        user.play.origin.down()
        let last = try user.get(user.token())
        #expect(last.text == user.text(of: first))
        #expect(last["Cache-Status"] == "cistern; hit; ttl=-400; detail=connection_refused")
        try user.play.restart()
        #expect(try user.get(user.token()).text == user.text(of: first))
    }

    @Test(
        "tokens of other users, with other rights, or unverifiable find none of the user's responses",
        arguments: [
            "bob", "forged", "expired", "none", "re-signed", "mixed up", "fewer rights", "another audience", "DPoP", "bound",
            "another key too",
            "two fields", "garbage", "nothing",
        ])
    func others(_ who: String) throws {
        let user = try TokenPlay()
        let first = user.token()
        #expect(try user.get(first).status == 200)
        var (token, more) = (user.token(), [(String, String)]())
        let parts = token.split(separator: ".").map(String.init)
        switch who {
        case "bob": token = user.token("bob")
        case "forged": token = TokenIssuer().token(user.claims())
        case "expired": token = user.token(seconds: -61)
        case "none": token = TokenIssuer.base64URL(Array(#"{"alg":"none"}"#.utf8)) + "." + parts[1] + "."
        case "re-signed":
            // Signed with the public key as an HMAC secret, which a verifier that accepts any algorithm would take.
            token = user.issuer.token(user.claims(), head: #"{"alg":"HS256","kid":"one"}"#)
        case "mixed up": token = [parts[0], parts[1], user.token("bob").split(separator: ".").map(String.init)[2]].joined(separator: ".")
        case "fewer rights": token = user.issuer.token(user.claims("ann", "\"scope\":\"read\""))
        case "another audience": token = user.issuer.token(user.claims(audience: "web"))
        case "DPoP": more = [("DPoP", "x")]
        case "bound": token = user.issuer.token(user.claims("ann", #""scope":"read write","cnf":{"jkt":"x"}"#))
        case "another key too": more = [("X-API-Key", "k")]
        case "two fields": more = [("Authorization", "Bearer x")]
        case "garbage": token = "aaaaaaaa.bbbbbbbb.cccccccc"
        default: token = ""
        }
        let asked = user.play.origin.requests.count
        #expect(try user.get(token, more).text == user.text(of: who == "nothing" ? "Bearer" : token))
        #expect(user.play.origin.requests.count == asked + 1)
        // The response to this token is not served to other users either.
        #expect(try user.get(first).text == user.text(of: first))
        user.play.origin.down()
        #expect(try user.get(token, more, "/other").status == 502)
        #expect(try user.get(user.token()).text == user.text(of: first))
    }

    @Test("a repeated hit ends when its token expires")
    func end() throws {
        let user = try TokenPlay()
        user.play.time.advance(by: .milliseconds(500))
        let (first, short) = (user.token(), user.token(seconds: 3 - 60))
        _ = try user.get(first)
        user.play.time.advance(by: .milliseconds(2_100))
        for _ in 0..<4 { #expect(try user.get(short).text == user.text(of: first)) }
        #expect(try user.play.metric("cistern_repeated_hits_total") ?? 0 > 0)
        // Within the second in which a repeated hit would still have the right Age.
        user.play.time.advance(by: .milliseconds(400))
        #expect(try user.get(short).text == user.text(of: short))
    }

    @Test("a verified token becomes invalid when its key leaves the set")
    func withdrawn() throws {
        let user = try TokenPlay()
        let (first, second) = (user.token(seconds: 3_000), user.token(seconds: 3_000))
        _ = try user.get(first)
        for _ in 0..<4 { #expect(try user.get(second).text == user.text(of: first)) }
        try user.writeKeys(TokenIssuer(name: "next"))
        user.play.time.advance(by: .seconds(600))
        _ = try user.get(second)
        #expect(try user.play.waitFor("cistern_token_key_reads_total{result=\"read\"}", 2))
        #expect(try user.get(second).text == user.text(of: second))
    }

    @Test("a recently expired token is rescued with its own user's response, for as long as configured")
    func rescueExpired() throws {
        let user = try TokenPlay { $0.settings.rescuesExpired = .seconds(600) }
        let first = user.token()
        _ = try user.get(first)
        let (ended, bobs, long) = (user.token(seconds: -100), user.token("bob", seconds: -100), user.token(seconds: -601))
        // While the upstream works, it decides about expired tokens.
        #expect(try user.get(ended, [], "/a").text == user.text(of: ended))
        user.play.origin.down()
        let response = try user.get(ended)
        #expect(response.text == user.text(of: first))
        #expect(response["Cache-Status"]?.hasSuffix("detail=connection_refused/expired_token") == true)
        #expect(try user.play.metric("cistern_rescued_with_shared_total{leave=\"expired_token\"}") == 1)
        let why = String(decoding: try user.play.admin("GET", "/-/why?path=/me&last=1").content, as: UTF8.self)
        #expect(why.contains("The stored response of the token's user was served instead: the token has just expired"))
        #expect(try user.get(bobs).status == 502 && user.get(long).status == 502)
        user.play.time.advance(by: .seconds(501))
        #expect(try user.get(ended).status == 502)
    }

    @Test("by default an expired token is not rescued beyond the clock tolerance")
    func noRescueExpired() throws {
        let user = try TokenPlay()
        _ = try user.get(user.token())
        user.play.origin.down()
        #expect(try user.get(user.token(seconds: -61)).status == 502)
        #expect(try user.get(user.token(seconds: -59)).status == 200)
    }

    @Test("a Retry-After for a user applies to all tokens of that user and to no other user")
    func pause() throws {
        let user = try TokenPlay()
        _ = try user.get(user.token(seconds: -50))
        user.play.time.advance(by: .seconds(3_700))
        user.play.origin.react { _ in [.json("{}", status: "429 Slow", ["Retry-After: 60"])] }
        #expect(try user.get(user.token()).status == 200)
        let asked = user.play.origin.requests.count
        #expect(try user.get(user.token()).status == 200)
        #expect(user.play.origin.requests.count == asked)
        #expect(try user.get(user.token("bob")).status == 429)
    }

    @Test("token verification results are counted and explained")
    func resultsCounted() throws {
        let user = try TokenPlay()
        for token in [user.token(), user.token("bob"), TokenIssuer().token(user.claims()), user.token(seconds: -61)] {
            for _ in 0..<3 { _ = try user.get(token) }
        }
        for (result, count) in [("verified", 2.0), ("signature", 1), ("expired", 1)] {
            #expect(try user.play.metric("cistern_tokens_total{result=\"\(result)\"}") == count, "\(result)")
        }
        #expect(try user.play.metric("cistern_tokens_remembered") == 4)
        #expect(try user.play.metric("cistern_token_keys") == 1)
        _ = try user.get(user.issuer.token(user.claims(audience: "web")))
        let why = String(decoding: try user.play.admin("GET", "/-/why?path=/me&last=1").content, as: UTF8.self)
        #expect(why.contains(#""identity": "audience""#))
        #expect(
            why.contains("The request's token was not verified (the token's audience is not accepted), so it has a separate partition."))
        #expect(why.contains("credentials.identity.jwt.audience"))
        let verified = String(decoding: try user.play.admin("GET", "/-/why?path=/me&last=20").content, as: UTF8.self)
        #expect(verified.contains(#""identity": "verified""#))
    }

    @Test("fetched keys are available after a restart without a network")
    func keptKeys() throws {
        let issuer = TokenIssuer()
        let keys = ScriptedOrigin { _ in [.json(#"{"keys":[\#(issuer.jwk())]}"#)] }
        let user = try TokenPlay { $0.keys = "http://127.0.0.1:\(keys.port)/keys" }
        #expect(try user.play.waitFor("cistern_token_key_reads_total{result=\"read\"}", 1))
        let first = issuer.token(user.claims())
        _ = try user.get(first)
        #expect(try user.get(issuer.token(user.claims())).text == user.text(of: first))
        keys.down()
        user.play.origin.down()
        try user.play.restart()
        #expect(try user.play.waitFor("cistern_token_key_reads_total{result=\"failed\"}", 1))
        #expect(try user.get(issuer.token(user.claims())).text == user.text(of: first))
    }

    @Test("without keys each token is a user of its own, and everything else works")
    func noKeys() throws {
        let user = try TokenPlay { $0.keys = "http://127.0.0.1:1/keys" }
        #expect(try user.play.waitFor("cistern_token_key_reads_total{result=\"failed\"}", 1))
        let (first, second) = (user.token(), user.token())
        #expect(try user.get(first).text == user.text(of: first))
        #expect(try user.get(second).text == user.text(of: second))
        user.play.origin.down()
        #expect(try user.get(first).text == user.text(of: first))
    }

    @Test("unverifiable tokens do not prevent other requests from being served")
    func flood() throws {
        let user = try TokenPlay()
        let first = user.token()
        _ = try user.get(first)
        user.play.origin.down()
        let stranger = TokenIssuer(name: "unknown")
        for number in 0..<600 { #expect(try user.get(number % 2 == 0 ? stranger.token(user.claims()) : "\(number).x.y").status >= 500) }
        #expect(try user.play.metric("cistern_tokens_total{result=\"too_many\"}") ?? 0 > 0)
        #expect(try user.get(first).status == 200)
        user.play.time.advance(by: .seconds(1))
        #expect(try user.get(user.token()).text == user.text(of: first))
    }
}
