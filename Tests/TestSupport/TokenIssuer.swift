// Creates keys, key sets and signed tokens like an issuer (RFC 7515, RFC 7517).

import CTestTokens

/// `@unchecked Sendable` because nothing changes after `init`, and each signature has its own OpenSSL context.
private final class TokenKey: @unchecked Sendable {
    /// Shared by all issuers of a run, because creating an RSA key takes long.
    static let rsa = TokenKey("RSA2048")

    let pointer: OpaquePointer

    init(_ kind: String) { pointer = test_key_make(kind) }

    deinit { test_key_free(pointer) }
}

package final class TokenIssuer: Sendable {
    package let algorithm: String
    package let name: String
    private let key: TokenKey

    /// - Parameter kind: type of the key, if it differs from the algorithm's default: `RSA1024`, `ED448`, …
    package init(_ algorithm: String = "ES256", name: String = "one", kind: String? = nil) {
        (self.algorithm, self.name) = (algorithm, name)
        let usual = [
            "ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "ED25519",
        ]
        key = (kind ?? usual[algorithm]).map { TokenKey($0) } ?? .rsa
    }

    /// The public key as a JWK.
    /// - Parameter more: additional members, as JSON.
    package func jwk(_ more: String = "") -> String {
        let number = { (name: String) in #""\#(name)":"\#(Self.base64URL(self.number(name)))""# }
        let numbers =
            if algorithm.hasPrefix("ES") {
                #""kty":"EC","crv":"\#(["ES256": "P-256", "ES384": "P-384"][algorithm] ?? "P-521")",\#(number("x")),\#(number("y"))"#
            } else if algorithm == "EdDSA" {
                #""kty":"OKP","crv":"\#(self.number("x").count == 32 ? "Ed25519" : "Ed448")",\#(number("x"))"#
            } else {
                #""kty":"RSA",\#(number("n")),\#(number("e"))"#
            }
        return #"{"kid":"\#(name)",\#(numbers)\#(more.isEmpty ? "" : ",")\#(more)}"#
    }

    package func number(_ name: String) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 2048)
        let count = test_key_number(key.pointer, name, &bytes, bytes.count)
        return Array(bytes.prefix(count))
    }

    /// A signed token.
    /// - Parameters:
    ///   - claims: as JSON.
    ///   - head: as JSON; nil for a header with `alg` and `kid`.
    package func token(_ claims: String, head: String? = nil) -> String {
        let head = head ?? #"{"alg":"\#(algorithm)","kid":"\#(name)"}"#
        let message = Self.base64URL(Array(head.utf8)) + "." + Self.base64URL(Array(claims.utf8))
        return message + "." + Self.base64URL(signature(Array(message.utf8)))
    }

    package func signature(_ message: [UInt8]) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 1024)
        let bits = algorithm == "EdDSA" ? 0 : Int32(algorithm.suffix(3)) ?? 256
        let count = test_key_sign(key.pointer, algorithm.hasPrefix("PS") ? 1 : 0, bits, message, message.count, &bytes, bytes.count)
        return Array(bytes.prefix(count))
    }

    package static func base64URL(_ bytes: [UInt8]) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var out: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            let group = (0..<3).reduce(0) { $0 << 8 | ($1 < count ? Int(bytes[start + $1]) : 0) }
            for index in 0...count { out.append(digits[group >> (18 - 6 * index) & 63]) }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
