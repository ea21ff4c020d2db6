// The supported signature algorithms (RFC 7518 §3.1, RFC 8037 §3.1). Excluded are `none`, and shared secrets, with which every party that
// can verify a token could also create one.

import CTLS

public enum SignatureAlgorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case edDSA = "EdDSA"

    var scheme: csignature_scheme {
        switch self {
        case .rs256, .rs384, .rs512: CSIGNATURE_PKCS1
        case .ps256, .ps384, .ps512: CSIGNATURE_PSS
        case .es256, .es384, .es512: CSIGNATURE_ECDSA
        case .edDSA: CSIGNATURE_EDDSA
        }
    }

    /// Size of the hash in bits; 0 for EdDSA, which defines its own hash.
    var hashBits: Int32 {
        switch self {
        case .rs256, .ps256, .es256: 256
        case .rs384, .ps384, .es384: 384
        case .rs512, .ps512, .es512: 512
        case .edDSA: 0
        }
    }

    /// Whether the algorithm is valid for keys of this kind, such as ES256 for P-256 only (RFC 7518 §3.4).
    func fits(_ kind: VerificationKey.Kind) -> Bool {
        switch (self, kind) {
        case (.rs256, .rsa), (.rs384, .rsa), (.rs512, .rsa), (.ps256, .rsa), (.ps384, .rsa), (.ps512, .rsa): true
        case (.es256, .p256), (.es384, .p384), (.es512, .p521), (.edDSA, .ed25519), (.edDSA, .ed448): true
        default: false
        }
    }
}
