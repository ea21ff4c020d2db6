// Creates signed tokens and their key set, as an issuer does (RFC 7515, RFC 8037). Only for the sample API of `cistern demo`.

import CTLS
import HTTPCore

/// `@unchecked Sendable` because it is immutable after `init`, and each signature uses its own OpenSSL context.
public final class TokenSigner: @unchecked Sendable {
    private static let name = "sample"
    private let key: OpaquePointer

    /// Creates a new key; nil on failure.
    public init?() {
        guard let key = csignature_edwards_make() else { return nil }
        self.key = key
    }

    deinit { csignature_free(key) }

    /// The public key as a JWK Set (RFC 7517 §5).
    public var keySet: String {
        var bytes = [UInt8](repeating: 0, count: Int(CSIGNATURE_ED25519_KEY_BYTES))
        csignature_edwards_public(key, &bytes)
        return #"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"\#(Self.name)","x":"\#(Base64.encodeURL(bytes))"}]}"#
    }

    /// - Parameter claims: the claims as JSON.
    public func token(_ claims: String) -> String? {
        let head = #"{"alg":"EdDSA","kid":"\#(Self.name)"}"#
        let message = [head, claims].map { Base64.encodeURL(Array($0.utf8)) }.joined(separator: ".")
        var signature = [UInt8](repeating: 0, count: Int(CSIGNATURE_ED25519_BYTES))
        guard csignature_edwards_sign(key, message, message.utf8.count, &signature) == 1 else { return nil }
        return message + "." + Base64.encodeURL(signature)
    }
}
