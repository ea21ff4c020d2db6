// Verifies tokens and determines their identity. Two tokens have an equal identity only if their signatures are valid and all claims are
// equal, except those that change on renewal. A token with fewer rights thus has another identity, and an invalid token has none.

import CachePolicy
import HTTPCore
import JSON

/// The identity of a request's token.
public struct TokenIdentity: Sendable, Equatable {
    /// The claims in canonical form, without those that change on renewal.
    public let claims: [UInt8]
    /// `exp`: seconds since 1970.
    public let expires: Int64
    /// Fingerprint of the signing key.
    let keyFingerprint: [UInt8]
}

public enum TokenFinding: Sendable {
    case verified(TokenIdentity)
    /// The token is valid except for its expiry, which has passed by more than the leeway.
    case expired(TokenIdentity)
    case refused(TokenRefusal)
    /// The token is signed with an unknown key.
    case unknownKey(name: String)
}

public struct TokenVerifier: Sendable {
    private let settings: TokenSettings

    public init(_ settings: TokenSettings) { self.settings = settings }

    private static let scheme = Array("bearer".utf8)
    private static let dpop = Array("dpop".utf8)

    /// Returns the bearer token of a request (RFC 6750 §2.1).
    public static func token(of fields: Fields) throws(TokenRefusal) -> ArraySlice<UInt8> {
        var value: ArraySlice<UInt8>?
        for field in fields.all(.authorization) {
            guard value == nil else { throw .severalFields }
            value = field
        }
        guard let value, value.count > scheme.count, value.prefix(scheme.count).map(\.asciiLowercased) == scheme else {
            throw .noBearer
        }
        let rest = value.dropFirst(scheme.count)
        let token = rest.drop { $0 == 0x20 }
        guard token.count < rest.count, !token.isEmpty else { throw .noBearer }
        if fields.contains(named: dpop.span) { throw .bound }
        return token
    }

    /// Verifies a token.
    /// - Parameter now: seconds since 1970.
    public func verify(_ token: ArraySlice<UInt8>, keys: KeySet, now: Int64) -> TokenFinding {
        do throws(TokenRefusal) {
            let token = try SignedToken(token, types: settings.types)
            guard let key = keys.key(named: token.keyName, for: token.algorithm) else {
                if let name = token.keyName, !keys.contains(named: name) { return .unknownKey(name: name) }
                return .refused(.unknownKey)
            }
            guard key.verifies(token.signature, of: token.message, token.algorithm) else { return .refused(.signature) }
            let identity = try identity(token.claims, key, now: now)
            let hasEnded = identity.expires <= now - settings.leeway.components.seconds
            return hasEnded ? .expired(identity) : .verified(identity)
        } catch {
            return .refused(error)
        }
    }

    private func identity(_ claims: [UInt8], _ key: VerificationKey, now: Int64) throws(TokenRefusal) -> TokenIdentity {
        guard let value = JSONValue(claims) else { throw .malformed }
        guard value["cnf"] == nil else { throw .bound }
        guard let issuer = value["iss"]?.string, settings.issuers.contains(issuer) else { throw .issuer }
        guard isAudience(value["aud"]) else { throw .audience }
        guard value[settings.subject].map(isUserIdentifier) == true else { throw .subject }
        guard let expires = value["exp"].flatMap(Self.time) else { throw .noExpiry }
        if let start = value["nbf"] {
            guard let start = Self.time(start), start <= now + settings.leeway.components.seconds else { throw .notYetValid }
        }
        return TokenIdentity(claims: withoutVolatile(claims), expires: expires, keyFingerprint: key.fingerprint)
    }

    private func isAudience(_ value: JSONValue?) -> Bool {
        switch value {
        case .string(let name): settings.audiences.contains(name)
        case .array(let names):
            // A list with other values than names is no valid audience (RFC 7519 §4.1.3).
            names.allSatisfy { $0.string != nil } && names.contains { $0.string.map(settings.audiences.contains) == true }
        default: false
        }
    }

    private func isUserIdentifier(_ value: JSONValue) -> Bool {
        switch value {
        case .string(let text): !text.isEmpty
        case .integer, .number: true
        case .null, .bool, .array, .object: false
        }
    }

    /// NumericDate (RFC 7519 §2), in whole seconds; nil for unreasonable values.
    private static func time(_ value: JSONValue) -> Int64? {
        guard let seconds = value.double, seconds >= 0, seconds < 1e11 else { return nil }
        return Int64(seconds)
    }

    /// Removes volatile members. The claims are in canonical form, so each member ends where the next one begins.
    private func withoutVolatile(_ claims: [UInt8]) -> [UInt8] {
        var out: [UInt8] = [UInt8(ascii: "{")]
        for member in ObjectMembers.of(claims) where !settings.isVolatile(member.name) {
            if out.count > 1 { out.append(UInt8(ascii: ",")) }
            out += claims[member.range]
        }
        return out + [UInt8(ascii: "}")]
    }
}

/// The members of an object in canonical form, each with the range of its name and value.
enum ObjectMembers {
    static func of(_ object: [UInt8]) -> [(name: [UInt8], range: Range<Int>)] {
        var members: [(name: [UInt8], range: Range<Int>)] = []
        var depth = 0
        JSONWalk.through(object.span) { token, meaning in
            switch token {
            case .beginObject, .beginArray: depth += 1
            case .endObject, .endArray: depth -= 1
            case .name(let range) where depth == 1:
                // A quote precedes the name, and a comma precedes all but the first member.
                close(&members, at: range.lowerBound - 2)
                members.append((meaning(range), range.lowerBound - 1..<object.count - 1))
            case .name, .string, .number, .literal: break
            }
            return true
        }
        return members
    }

    private static func close(_ members: inout [(name: [UInt8], range: Range<Int>)], at end: Int) {
        guard let last = members.last else { return }
        members[members.count - 1].range = last.range.lowerBound..<end
    }
}
