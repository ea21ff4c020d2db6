// The keys with which tokens may be signed: a JWK Set (RFC 7517 §5). Unusable keys are omitted with a reason; the other ones remain valid.

import CTLS
import CachePolicy
import HTTPCore
import JSON

/// A public key. `@unchecked Sendable` because it is immutable, and OpenSSL permits several threads to verify signatures with one key.
public final class VerificationKey: @unchecked Sendable {
    public enum Kind: Sendable { case rsa, p256, p384, p521, ed25519, ed448 }

    public let kind: Kind
    /// `kid`: the key's name in the set; nil if it has none.
    public let name: String?
    /// `alg`: the only algorithm for which the key may be used; nil for any suitable one.
    let algorithm: SignatureAlgorithm?
    private let key: OpaquePointer
    /// Equal for keys with equal parameters, also after the set was read again.
    let fingerprint: [UInt8]

    fileprivate init(_ kind: Kind, name: String?, algorithm: SignatureAlgorithm?, key: OpaquePointer, fingerprint: [UInt8]) {
        (self.kind, self.name, self.algorithm, self.key, self.fingerprint) = (kind, name, algorithm, key, fingerprint)
    }

    deinit { csignature_free(key) }

    func isFor(_ algorithm: SignatureAlgorithm) -> Bool {
        algorithm.fits(kind) && (self.algorithm == nil || self.algorithm == algorithm)
    }

    func verifies(_ signature: [UInt8], of message: ArraySlice<UInt8>, _ algorithm: SignatureAlgorithm) -> Bool {
        guard isFor(algorithm) else { return false }
        return message.withUnsafeBufferPointer { message in
            csignature_verify(
                key, algorithm.scheme, algorithm.hashBits, message.baseAddress, message.count, signature, signature.count) == 1
        }
    }
}

/// Why a member of a set is not used.
public enum KeyRefusal: String, Error {
    case unknownKind = "its kty is not RSA, EC or OKP, or its curve is not supported"
    case notForSignatures = "its use or key_ops does not permit verifying signatures"
    case unknownAlgorithm = "its alg is not supported"
    case otherAlgorithm = "its alg does not match its kty"
    case malformed = "its key parameters are missing or invalid"
    case tooShort = "an RSA key of less than 2,048 bits"
    case tooLong = "an RSA key of more than 8,192 bits or with a long exponent, which takes too long to verify"
    case repeated = "it has a repeated member"
}

public struct KeySet: Sendable {
    public let keys: [VerificationKey]
    /// The omitted members: name, or position in the set, and reason.
    public let refused: [(name: String, reason: KeyRefusal)]

    /// Maximum size of a key set: half a mebibyte and 256 keys.
    public static let byteLimit = 512 * 1024
    public static let keyLimit = 256

    init() { (keys, refused) = ([], []) }

    /// Returns nil if the text is no JWK Set.
    public init?(_ text: [UInt8]) {
        guard text.count <= Self.byteLimit, let members = JSONValue(text)?["keys"]?.array, members.count <= Self.keyLimit else {
            return nil
        }
        var keys: [VerificationKey] = []
        var refused: [(name: String, reason: KeyRefusal)] = []
        for (index, member) in members.enumerated() {
            do throws(KeyRefusal) {
                keys.append(try Self.read(member))
            } catch {
                refused.append((member["kid"]?.string ?? "number \(index + 1)", error))
            }
        }
        self.keys = keys
        self.refused = refused
    }

    /// Returns the key that a token's head identifies; nil if there is none, or more than one.
    /// - Parameter name: the token's `kid`; nil if it has none. The set must then have exactly one key for the algorithm.
    func key(named name: String?, for algorithm: SignatureAlgorithm) -> VerificationKey? {
        var found: VerificationKey?
        for key in keys where key.isFor(algorithm) && (name == nil || key.name == name) {
            guard found == nil else { return nil }
            found = key
        }
        return found
    }

    /// Why a set has no usable keys, as a continuation of "it has".
    public var unusableReason: String {
        "no usable key" + (refused.first.map { " (\($0.name): \($0.reason.rawValue))" } ?? "")
    }

    public func contains(named name: String) -> Bool { keys.contains { $0.name == name } }

    // MARK: Reading

    private static func read(_ member: JSONValue) throws(KeyRefusal) -> VerificationKey {
        guard let names = member.members?.map(\.name), Set(names).count == names.count else { throw .repeated }
        let operations = member["key_ops"].map { $0.array?.compactMap(\.string) ?? [] }
        guard member["use"].map({ $0.string == "sig" }) ?? true, operations?.contains("verify") ?? true else {
            throw .notForSignatures
        }
        let kind = try kind(member)
        var algorithm: SignatureAlgorithm?
        if let named = member["alg"] {
            guard let known = named.string.flatMap(SignatureAlgorithm.init) else { throw .unknownAlgorithm }
            guard known.fits(kind) else { throw .otherAlgorithm }
            algorithm = known
        }
        return VerificationKey(
            kind, name: member["kid"]?.string, algorithm: algorithm, key: try pointer(member, kind), fingerprint: fingerprint(member))
    }

    /// All parameters of a key, each with its length.
    private static func fingerprint(_ member: JSONValue) -> [UInt8] {
        var fingerprint: [UInt8] = []
        for name in ["kid", "alg", "kty", "crv", "n", "e", "x", "y"] {
            CacheKey.appendPart(Array((member[name]?.string ?? "").utf8), to: &fingerprint)
        }
        return fingerprint
    }

    private static func kind(_ member: JSONValue) throws(KeyRefusal) -> VerificationKey.Kind {
        switch (member["kty"]?.string, member["crv"]?.string) {
        case ("RSA", _): return .rsa
        case ("EC", "P-256"): return .p256
        case ("EC", "P-384"): return .p384
        case ("EC", "P-521"): return .p521
        case ("OKP", "Ed25519"): return .ed25519
        case ("OKP", "Ed448"): return .ed448
        default: throw .unknownKind
        }
    }

    private static func pointer(_ member: JSONValue, _ kind: VerificationKey.Kind) throws(KeyRefusal) -> OpaquePointer {
        func number(_ name: String) throws(KeyRefusal) -> [UInt8] {
            guard let text = member[name]?.string, let bytes = Base64.decodeURL(Array(text.utf8)[...]) else {
                throw .malformed
            }
            return bytes
        }
        let key: OpaquePointer?
        switch kind {
        case .rsa: key = try rsa(modulus: number("n"), exponent: number("e"))
        case .p256: key = try point(CSIGNATURE_P256, number("x"), number("y"))
        case .p384: key = try point(CSIGNATURE_P384, number("x"), number("y"))
        case .p521: key = try point(CSIGNATURE_P521, number("x"), number("y"))
        case .ed25519: key = try edwards(CSIGNATURE_ED25519, number("x"))
        case .ed448: key = try edwards(CSIGNATURE_ED448, number("x"))
        }
        guard let key else { throw .malformed }
        return key
    }

    /// Creates an RSA key. Its size is limited, because verification with long numbers could block an event loop.
    private static func rsa(modulus: [UInt8], exponent: [UInt8]) throws(KeyRefusal) -> OpaquePointer? {
        let bits = modulus.drop { $0 == 0 }.count * 8 - (modulus.first { $0 != 0 }?.leadingZeroBitCount ?? 0)
        guard bits >= 2048 else { throw .tooShort }
        let trimmed = Array(exponent.drop { $0 == 0 })
        guard bits <= 8192, trimmed.count <= 4 else { throw .tooLong }
        // With an even exponent, or 1, nothing can be verified: with 1, any message would be its own signature.
        guard let last = trimmed.last, last & 1 == 1, trimmed != [1] else { return nil }
        return csignature_rsa_key(modulus, modulus.count, trimmed, trimmed.count)
    }

    private static func point(_ curve: csignature_curve, _ x: [UInt8], _ y: [UInt8]) -> OpaquePointer? {
        x.count == y.count ? csignature_ec_key(curve, x, y, x.count) : nil
    }

    private static func edwards(_ curve: csignature_curve, _ x: [UInt8]) -> OpaquePointer? { csignature_edwards_key(curve, x, x.count) }
}
