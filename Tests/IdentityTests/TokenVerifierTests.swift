// Tests of token verification without a network. There is a row for each way to forge, confuse or obscure a token.

import CachePolicy
import HTTPCore
import TestSupport
import Testing

@testable import Identity

private let noon: Int64 = 1_795_000_000
private let issuer = TokenIssuer()
private let plainClaims = #"{"iss":"https://id.example","aud":"api","sub":"ann","exp":1795000300,"scope":"read"}"#

private var settings: TokenSettings { TokenSettings(issuers: ["https://id.example"], audiences: ["api", "app"]) }

private func keys(_ members: String...) throws -> KeySet {
    try #require(KeySet(Array(#"{"keys":[\#(members.joined(separator: ","))]}"#.utf8)))
}

/// A finding as one word, for comparison.
private func word(_ finding: TokenFinding) -> String {
    switch finding {
    case .verified: "verified"
    case .expired: "expired"
    case .refused(let reason): reason.rawValue
    case .unknownKey(let name): "unknown key \(name)"
    }
}

private func verify(_ token: String, _ set: KeySet? = nil, _ settings: TokenSettings = settings, now: Int64 = noon) throws -> TokenFinding {
    TokenVerifier(settings).verify(Array(token.utf8)[...], keys: try set ?? keys(issuer.jwk()), now: now)
}

private func identity(_ claims: String, _ settings: TokenSettings = settings) throws -> String? {
    guard case .verified(let identity) = try verify(issuer.token(claims), nil, settings) else { return nil }
    return String(decoding: identity.claims, as: UTF8.self)
}

@Suite("Token verification")
struct TokenVerifierTests {
    @Test(
        "a token is verified with each supported algorithm, and with no other one for its key",
        arguments: SignatureAlgorithm.allCases.map(\.rawValue))
    func algorithms(name: String) throws {
        let issuer = TokenIssuer(name)
        let token = issuer.token(plainClaims)
        #expect(word(try verify(token, keys(issuer.jwk()))) == "verified")
        #expect(word(try verify(token, keys(issuer.jwk(#""alg":"\#(name)""#)))) == "verified")
        for other in SignatureAlgorithm.allCases where other.rawValue != name {
            // The signature under another algorithm's name, and a key that is declared for another algorithm.
            let renamed = issuer.token(plainClaims, head: #"{"alg":"\#(other.rawValue)","kid":"one"}"#)
            #expect(word(try verify(renamed, keys(issuer.jwk()))) != "verified", "\(other)")
            let set = try keys(issuer.jwk(#""alg":"\#(other.rawValue)""#))
            #expect(word(try verify(token, set)) != "verified", "\(other)")
        }
    }

    @Test("an Ed448 signature is verified")
    func ed448() throws {
        let issuer = TokenIssuer("EdDSA", kind: "ED448")
        #expect(word(try verify(issuer.token(plainClaims), keys(issuer.jwk()))) == "verified")
    }

    @Test(
        "a header that controls its own verification gives no identity",
        arguments: [
            (#"{"alg":"none"}"#, "algorithm"),
            (#"{"alg":"None","kid":"one"}"#, "algorithm"),
            (#"{"alg":"HS256","kid":"one"}"#, "algorithm"),
            (#"{"alg":"es256","kid":"one"}"#, "algorithm"),
            (#"{"kid":"one"}"#, "algorithm"),
            (#"{"alg":["ES256"],"kid":"one"}"#, "algorithm"),
            (#"{"alg":"ES256","kid":"one","crit":["exp"]}"#, "forbidden_header"),
            (#"{"alg":"ES256","kid":"one","jku":"https://evil.example/keys"}"#, "forbidden_header"),
            (#"{"alg":"ES256","kid":"one","x5u":"https://evil.example/keys"}"#, "forbidden_header"),
            (#"{"alg":"ES256","kid":"one","jwk":{}}"#, "forbidden_header"),
            (#"{"alg":"ES256","kid":"one","x5c":[]}"#, "forbidden_header"),
            (#"{"alg":"ES256","kid":"one","\u006ajku":1}"#, "verified"),
            (#"{"alg":"ES256","kid":"one","\u006aku":1}"#, "forbidden_header"),
            (#"{"alg":"none","alg":"ES256","kid":"one"}"#, "duplicate_member"),
            (#"{"alg":"ES256","kid":"one","a":{"b":1,"b":2}}"#, "duplicate_member"),
            (#"{"alg":"ES256","kid":1}"#, "malformed"),
            (#"["alg","ES256"]"#, "malformed"),
            (#"{"alg":"ES256","kid":"two"}"#, "unknown key two"),
            (#"{"alg":"ES256"}"#, "verified"),
            (#"{"alg":"ES256","kid":"one","typ":"at+jwt"}"#, "verified"),
            ("", "malformed"),
        ])
    func heads(head: String, expected: String) throws {
        #expect(word(try verify(issuer.token(plainClaims, head: head))) == expected)
    }

    @Test(
        "claims without a valid subject, issuer, audience or expiry give no identity",
        arguments: [
            (#""sub":"ann","exp":1795000300"#, "verified"),
            (#""sub":7,"exp":1795000300"#, "verified"),
            (#""sub":"","exp":1795000300"#, "subject"),
            (#""sub":null,"exp":1795000300"#, "subject"),
            (#""sub":["ann"],"exp":1795000300"#, "subject"),
            (#""exp":1795000300"#, "subject"),
            (#""sub":"ann""#, "no_expiry"),
            (#""sub":"ann","exp":"1795000300""#, "no_expiry"),
            (#""sub":"ann","exp":1e300"#, "no_expiry"),
            (#""sub":"ann","exp":-1"#, "no_expiry"),
            (#""sub":"ann","exp":1795000300.9"#, "verified"),
            (#""sub":"ann","exp":1794999941"#, "verified"),
            (#""sub":"ann","exp":1794999940"#, "expired"),
            (#""sub":"ann","exp":0"#, "expired"),
            (#""sub":"ann","exp":1795000300,"nbf":1795000060"#, "verified"),
            (#""sub":"ann","exp":1795000300,"nbf":1795000061"#, "not_yet_valid"),
            (#""sub":"ann","exp":1795000300,"nbf":"soon""#, "not_yet_valid"),
            (#""sub":"ann","exp":1795000300,"cnf":{"jkt":"x"}"#, "bound"),
            (#""sub":"ann","sub":"bob","exp":1795000300"#, "duplicate_member"),
            (#""sub":"ann","\u0073ub":"bob","exp":1795000300"#, "duplicate_member"),
            (#""sub":"ann","exp":1795000300,"a":[{"b":1,"b":1}]"#, "duplicate_member"),
        ])
    func requiredClaims(members: String, expected: String) throws {
        let token = issuer.token(#"{"iss":"https://id.example","aud":"api",\#(members)}"#)
        #expect(word(try verify(token)) == expected)
    }

    @Test(
        "issuer and audience must equal a configured value exactly",
        arguments: [
            (#""iss":"https://id.example","aud":"api""#, "verified"),
            (#""iss":"https://id.example","aud":["x","app"]"#, "verified"),
            (#""iss":"https://id.example/","aud":"api""#, "issuer"),
            (#""iss":["https://id.example"],"aud":"api""#, "issuer"),
            (#""aud":"api""#, "issuer"),
            (#""iss":"https://id.example""#, "audience"),
            (#""iss":"https://id.example","aud":"API""#, "audience"),
            (#""iss":"https://id.example","aud":[]"#, "audience"),
            (#""iss":"https://id.example","aud":["api",1]"#, "audience"),
            (#""iss":"https://id.example","aud":{"api":1}"#, "audience"),
        ])
    func parties(members: String, expected: String) throws {
        #expect(word(try verify(issuer.token(#"{\#(members),"sub":"ann","exp":1795000300}"#))) == expected)
    }

    @Test("changing any byte of a token invalidates it")
    func forgery() throws {
        let token = Array(issuer.token(plainClaims).utf8)
        for index in token.indices {
            var forged = token
            forged[index] = forged[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(word(try verify(String(decoding: forged, as: UTF8.self))) != "verified", "byte \(index)")
        }
    }

    @Test("foreign keys and signatures, mixed tokens and malformed tokens give no identity")
    func mixtures() throws {
        let thief = TokenIssuer()
        #expect(word(try verify(thief.token(plainClaims))) == "signature")
        let other = issuer.token(#"{"iss":"https://id.example","aud":"api","sub":"bob","exp":1795000300}"#)
        let (mine, theirs) = (issuer.token(plainClaims).split(separator: "."), other.split(separator: "."))
        #expect(word(try verify("\(mine[0]).\(theirs[1]).\(mine[2])")) == "signature")
        #expect(word(try verify("\(mine[0]).\(mine[1]).")) == "signature")
        #expect(word(try verify("\(mine[0]).\(mine[1])")) == "malformed")
        #expect(word(try verify("\(mine[0]).\(mine[1]).\(mine[2]).a.b")) == "malformed")
        #expect(word(try verify("\(mine[0]).\(mine[1]).\(mine[2])=")) == "malformed")
        #expect(word(try verify(String(repeating: "a", count: 8193))) == "too_long")
    }

    @Test("the identity consists of all claims except those that a refresh changes")
    func identities() throws {
        let first = #"{"iss":"https://id.example","aud":"api","sub":"ann","scope":"read","exp":1795000300,"jti":"1","sid":"a","iat":1}"#
        let second = #"{ "exp": 1795000400, "nonce":"z", "scope":"r\u0065ad", "sub":"ann", "aud":"api", "iss":"https://id.example"}"#
        let expected = #"{"aud":"api","iss":"https://id.example","scope":"read","sub":"ann"}"#
        #expect(try identity(first) == expected)
        #expect(try identity(second) == expected)
        for other in [
            #""scope":"read write""#, #""scope":["read"]"#, #""scope":"read","admin":true"#,
            #""scope":"read","tenant":12345678901234567890"#,
            #""scope":"read","tenant":12345678901234567891"#,
        ] {
            let claims = #"{"iss":"https://id.example","aud":"api","sub":"ann","exp":1795000300,\#(other)}"#
            let different = try identity(claims)
            #expect(different != nil && different != expected, "\(other)")
        }
    }

    @Test("large numbers keep their digits, and configured volatile claims are omitted, except identity claims")
    func volatileClaims() throws {
        var settings = settings
        settings.volatileClaims = ["trace", "sub", "iss", "aud"]
        let claims =
            #"{"iss":"https://id.example","aud":"api","sub":"ann","exp":1795000300,"trace":[1,{"exp":2}],"n":12345678901234567891}"#
        #expect(
            try identity(claims, settings)
                == #"{"aud":"api","iss":"https://id.example","n":12345678901234567891,"sub":"ann"}"#)
        settings.subject = "uid"
        #expect(try identity(claims, settings) == nil)
        settings.volatileClaims = ["uid"]
        #expect(
            try identity(#"{"iss":"https://id.example","aud":"api","uid":"7","exp":1795000300}"#, settings)
                == #"{"aud":"api","iss":"https://id.example","uid":"7"}"#)
    }

    @Test(
        "typ must equal a configured value if one is configured",
        arguments: [
            (#""typ":"at+jwt""#, "verified"), (#""typ":"application/AT+JWT""#, "verified"), (#""typ":"JWT""#, "type"),
            (#""typ":1"#, "type"), (#""x":1"#, "type"),
        ])
    func types(member: String, expected: String) throws {
        var settings = settings
        settings.types = ["at+jwt"]
        let token = issuer.token(plainClaims, head: #"{"alg":"ES256","kid":"one",\#(member)}"#)
        #expect(word(try verify(token, nil, settings)) == expected)
    }

    @Test(
        "the token is read from one Authorization field, and a sender-constrained token gives no identity",
        arguments: [
            (["Authorization: Bearer abc"], "abc"),
            (["authorization: bearer  abc"], "abc"),
            (["Authorization: Bearer abc", "Authorization: Bearer abc"], "several_fields"),
            (["Authorization: Basic abc"], "no_bearer"),
            (["Authorization: Bearer"], "no_bearer"),
            (["Authorization: Bearerabc"], "no_bearer"),
            (["Authorization: DPoP abc"], "no_bearer"),
            (["Authorization: Bearer abc", "DPoP: x"], "bound"),
            (["Accept: */*"], "no_bearer"),
        ])
    func fields(lines: [String], expected: String) {
        var fields = Fields()
        for line in lines {
            let parts = line.split(separator: ":", maxSplits: 1)
            fields.append(name: String(parts[0]), value: String(parts[1].drop { $0 == " " }))
        }
        do throws(TokenRefusal) {
            let token = try TokenVerifier.token(of: fields)
            #expect(String(decoding: token, as: UTF8.self) == expected)
        } catch {
            #expect(error.rawValue == expected)
        }
    }
}
