// A parsed token: three parts joined by dots (RFC 7515 §3.1). Its head is restricted: a token that could select how it is verified is
// refused (RFC 8725 §3).

import CachePolicy
import HTTPCore
import JSON

struct SignedToken {
    let algorithm: SignatureAlgorithm
    let keyName: String?
    /// The claims in canonical form.
    let claims: [UInt8]
    let signature: [UInt8]
    /// The signed bytes.
    let message: ArraySlice<UInt8>

    /// Maximum size in bytes. Longer tokens are refused, because verification time grows with the size.
    static let byteLimit = 8 * 1024
    private static let forbidden = ["crit", "jku", "x5u", "jwk", "x5c"]

    init(_ token: ArraySlice<UInt8>, types: [String]) throws(TokenRefusal) {
        guard token.count <= Self.byteLimit else { throw .tooLong }
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let head = Base64.decodeURL(parts[0]), let payload = Base64.decodeURL(parts[1]),
            let signature = Base64.decodeURL(parts[2])
        else { throw .malformed }
        (algorithm, keyName) = try Self.readHead(head, types)
        claims = try Self.canonical(payload)
        self.signature = signature
        message = token[parts[0].startIndex..<parts[1].endIndex]
    }

    private static func readHead(_ head: [UInt8], _ types: [String]) throws(TokenRefusal) -> (SignatureAlgorithm, String?) {
        guard let head = JSONValue(try canonical(head)) else { throw .malformed }
        guard !forbidden.contains(where: { head[$0] != nil }) else { throw .forbiddenHeader }
        guard let algorithm = head["alg"]?.string.flatMap(SignatureAlgorithm.init) else { throw .algorithm }
        guard types.isEmpty || head["typ"]?.string.map({ isType($0, in: types) }) == true else { throw .type }
        guard let name = head["kid"] else { return (algorithm, nil) }
        guard let name = name.string else { throw .malformed }
        return (algorithm, name)
    }

    /// Whether the type is in the list. `application/` may be omitted, and case is ignored (RFC 7515 §4.1.9).
    private static func isType(_ type: String, in types: [String]) -> Bool {
        func plain(_ text: String) -> [UInt8] {
            let bytes = text.utf8.map(\.asciiLowercased)
            let prefix = Array("application/".utf8)
            return bytes.starts(with: prefix) ? Array(bytes.dropFirst(prefix.count)) : bytes
        }
        return types.contains { plain($0) == plain(type) }
    }

    /// Returns an object in canonical form. Fails if a member occurs twice.
    private static func canonical(_ text: [UInt8]) throws(TokenRefusal) -> [UInt8] {
        guard JSONTextChecker.check(text.span) == .valid else { throw .malformed }
        guard let canonical = CanonicalJSON.make(checked: text.span) else { throw .duplicateMember }
        guard canonical.first == UInt8(ascii: "{") else { throw .malformed }
        return canonical
    }
}
