// Tests which keys of a set are used, and which key verifies a token.

import TestSupport
import Testing

@testable import Identity

private func keySet(_ members: String) -> KeySet? { KeySet(Array(#"{"keys":[\#(members)]}"#.utf8)) }

@Suite("Sets of keys")
struct KeySetTests {
    static let key = TokenIssuer("ES256").jwk()

    @Test(
        "A key that is not for checking signatures, or is no key, is left out with its reason",
        arguments: [
            (key, nil),
            (TokenIssuer("ES256").jwk(#""use":"sig","key_ops":["verify"]"#), nil),
            (TokenIssuer("ES256").jwk(#""use":"enc""#), .notForSignatures),
            (TokenIssuer("ES256").jwk(#""key_ops":["sign"]"#), .notForSignatures),
            (TokenIssuer("ES256").jwk(#""alg":"ES384""#), .otherAlgorithm),
            (TokenIssuer("ES256").jwk(#""alg":"HS256""#), .unknownAlgorithm),
            (TokenIssuer("ES256").jwk(#""alg":"ES256","alg":"ES256""#), .repeated),
            (TokenIssuer("RS256", kind: "RSA1024").jwk(), .tooShort),
            (#"{"kty":"oct","k":"c2VjcmV0"}"#, .unknownKind),
            (#"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#, .unknownKind),
            (#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#, .malformed),
            (#"{"kty":"EC","crv":"P-256"}"#, .malformed),
            (#"{"kty":"OKP","crv":"Ed25519","x":"AA"}"#, .malformed),
            ("7", .repeated),
        ] as [(String, KeyRefusal?)])
    func members(member: String, refusal: KeyRefusal?) throws {
        let set = try #require(keySet(member))
        #expect(set.keys.count == (refusal == nil ? 1 : 0))
        #expect(set.refused.map(\.reason) == [refusal].compactMap { $0 })
    }

    @Test("A point that is not on its curve is no key")
    func point() throws {
        let x = TokenIssuer.base64URL([UInt8](repeating: 1, count: 32))
        let set = try #require(keySet(#"{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(x)"}"#))
        #expect(set.refused.map(\.reason) == [.malformed])
    }

    @Test(
        "An RSA key with an exponent that checks nothing, or takes long, is left out",
        arguments: [("AQ", KeyRefusal.malformed), ("Ag", .malformed), ("AAAA", .malformed), ("AQAAAAE", .tooLong)])
    func exponents(exponent: String, refusal: KeyRefusal) throws {
        let modulus = TokenIssuer.base64URL(TokenIssuer("RS256").number("n"))
        let set = try #require(keySet(#"{"kty":"RSA","n":"\#(modulus)","e":"\#(exponent)"}"#))
        #expect(set.refused.map(\.reason) == [refusal])
    }

    @Test("An RSA key that is too long to be checked quickly is left out")
    func longModulus() throws {
        let modulus = TokenIssuer.base64URL([UInt8](repeating: 0xff, count: 1025))
        let set = try #require(keySet(#"{"kty":"RSA","n":"\#(modulus)","e":"AQAB"}"#))
        #expect(set.refused.map(\.reason) == [.tooLong])
    }

    @Test("What is no JWK Set is none", arguments: ["", "[]", "{}", #"{"keys":{}}"#, #"{"keys":[}"#, "\"keys\""])
    func noSets(text: String) {
        #expect(KeySet(Array(text.utf8)) == nil)
    }

    @Test("A key is found by its name; without one there must be just one for the algorithm")
    func choosing() throws {
        let (one, two) = (TokenIssuer(name: "one").jwk(), TokenIssuer(name: "two").jwk())
        let rsa = TokenIssuer("RS256", name: "three").jwk()
        let all = try #require(keySet("\(one),\(two),\(rsa)"))
        #expect(all.key(named: "two", for: .es256)?.name == "two")
        #expect(all.key(named: "two", for: .rs256) == nil)
        #expect(all.key(named: nil, for: .es256) == nil)
        #expect(all.key(named: nil, for: .ps512)?.name == "three")
        #expect(all.contains(named: "three") && !all.contains(named: "four"))
        let twice = try #require(keySet("\(one),\(TokenIssuer(name: "one").jwk())"))
        #expect(twice.key(named: "one", for: .es256) == nil)
    }
}
