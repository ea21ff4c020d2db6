// Tests which keys of a set are used, and which key verifies a token.

import TestSupport
import Testing

@testable import Identity

private func keySet(_ members: String) -> KeySet? { KeySet(Array(#"{"keys":[\#(members)]}"#.utf8)) }

@Suite("JSON Web Key Sets")
struct KeySetTests {
    static let key = TokenIssuer("ES256").jwk()

    @Test(
        "a key that cannot verify signatures or is malformed is rejected with its reason",
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

    @Test("a point that is not on its curve is rejected")
    func point() throws {
        let x = TokenIssuer.base64URL([UInt8](repeating: 1, count: 32))
        let set = try #require(keySet(#"{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(x)"}"#))
        #expect(set.refused.map(\.reason) == [.malformed])
    }

    @Test(
        "an RSA key with a trivial or oversized exponent is rejected",
        arguments: [("AQ", KeyRefusal.malformed), ("Ag", .malformed), ("AAAA", .malformed), ("AQAAAAE", .tooLong)])
    func exponents(exponent: String, refusal: KeyRefusal) throws {
        let modulus = TokenIssuer.base64URL(TokenIssuer("RS256").number("n"))
        let set = try #require(keySet(#"{"kty":"RSA","n":"\#(modulus)","e":"\#(exponent)"}"#))
        #expect(set.refused.map(\.reason) == [refusal])
    }

    @Test("an RSA key with an oversized modulus is rejected")
    func longModulus() throws {
        let modulus = TokenIssuer.base64URL([UInt8](repeating: 0xff, count: 1025))
        let set = try #require(keySet(#"{"kty":"RSA","n":"\#(modulus)","e":"AQAB"}"#))
        #expect(set.refused.map(\.reason) == [.tooLong])
    }

    @Test("a text that is not a JWK Set is rejected", arguments: ["", "[]", "{}", #"{"keys":{}}"#, #"{"keys":[}"#, "\"keys\""])
    func noSets(text: String) {
        #expect(KeySet(Array(text.utf8)) == nil)
    }

    @Test("a key is selected by its name, or without one if a single key fits the algorithm")
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
