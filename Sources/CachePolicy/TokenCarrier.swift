// Finds the credential that carries the token or session identifying a request's user (`credentials.identity.lookup`). Requests of one user
// share stored responses although their tokens differ, so only that credential is left out of the cache key. Every other credential may
// select a tenant or an account and stays in the key. Without exactly one plausible carrier, no credential is left out.

import HTTPCore

public struct TokenCarriers: Sendable {
    public enum Carrier: Equatable {
        /// Index of the field line.
        case field(Int)
        case cookie(CredentialCookies.Pair)
    }

    private let credentials: CredentialNames
    private let groups: CredentialNames
    /// nil if Cookie is not a credential field.
    private let cookies: CredentialCookies?
    /// Session cookies that the operator listed by full name.
    private let namedCookies: [CookiePattern]

    public init(_ settings: CachePolicySettings) {
        (credentials, groups) = (settings.credentials.names, settings.credentials.groupNames)
        cookies = settings.credentials.fields.contains("cookie") ? CredentialCookies(settings) : nil
        namedCookies = settings.credentials.cookies.filter { !$0.hasSuffix("*") }.map { CookiePattern($0) }
    }

    private static let tokenNames = CredentialNames([
        "authorization", "*authorization", "*token", "*jwt", "*session", "*session-id", "auth", "x-auth", "authentication",
    ])
    private static let keyNames = CredentialNames(["*key"])
    private static let sessionWords = ["sess", "token", "jwt", "auth", "login", "logged", "ticket", "identity", "remember"]

    /// Returns the single credential that can carry the token; nil if there are several, or none.
    public func carrier(of fields: Fields) -> Carrier? {
        var tokens: [Carrier] = []
        var keys: [Carrier] = []
        for (index, entry) in fields.entries.enumerated() where entry.known != .cookie && isPersonal(entry, of: fields) {
            let name = fields.bytes.span.extracting(entry.nameRange)
            if entry.known == .authorization || Self.tokenNames.contains(name) {
                tokens.append(.field(index))
            } else if entry.known == .xAPIKey || Self.keyNames.contains(name) {
                keys.append(.field(index))
            }
        }
        if let cookies, fields.contains(.cookie) {
            guard let pairs = cookies.pairs(of: fields) else { return nil }
            tokens += pairs.filter(isSession).map { .cookie($0) }
        }
        let candidates = tokens.isEmpty ? keys : tokens
        return candidates.count == 1 ? candidates[0] : nil
    }

    /// Returns whether a field can be the credential of a single user.
    private func isPersonal(_ entry: Fields.Entry, of fields: Fields) -> Bool {
        let name = fields.bytes.span.extracting(entry.nameRange)
        return !entry.valueRange.isEmpty && credentials.contains(name) && !groups.contains(name)
            && !CredentialNames.isForgeryToken(name)
            && !UserCredentials.isChoice(fields.bytes[entry.valueRange])
    }

    private func isSession(_ pair: CredentialCookies.Pair) -> Bool {
        let name = pair.name.map(\.asciiLowercased)
        guard !pair.value.isEmpty, !groups.contains(name), !CredentialNames.isForgeryToken(name.span),
            !UserCredentials.isChoice(pair.value)
        else { return false }
        let text = String(decoding: name, as: UTF8.self)
        return namedCookies.contains { $0.matches(pair.name) } || text.hasSuffix("sid") || Self.sessionWords.contains { text.contains($0) }
    }

    /// Returns the request's fields without the carrier.
    public func removing(_ carrier: Carrier, from fields: Fields) -> Fields {
        switch carrier {
        case .field(let index):
            return Fields(bytes: fields.bytes, entries: fields.entries.indices.filter { $0 != index }.map { fields.entries[$0] })
        case .cookie(let carried):
            var rest = fields
            rest.remove(.cookie)
            for pair in cookies?.pairs(of: fields) ?? [] where pair != carried {
                rest.append(.cookie, Array(pair.name) + [UInt8(ascii: "=")] + Array(pair.value))
            }
            return rest
        }
    }

    /// Returns the carrier's name and value in one encoding.
    public func bytes(of carrier: Carrier, in fields: Fields) -> [UInt8] {
        switch carrier {
        case .field(let index):
            let entry = fields.entries[index]
            return Self.bytes(field: fields.bytes[entry.nameRange], fields.bytes[entry.valueRange])
        case .cookie(let pair): return Self.bytes(cookie: pair.name, pair.value)
        }
    }

    /// Returns name and value of every credential that an upstream could read as a token.
    public func allBytes(in fields: Fields) -> [[UInt8]] {
        var all: [[UInt8]] = []
        for entry in fields.entries {
            if entry.known == .cookie {
                for piece in fields.bytes[entry.valueRange].split(separator: UInt8(ascii: ";")) {
                    guard let equals = piece.firstIndex(of: UInt8(ascii: "=")) else { continue }
                    all.append(Self.bytes(cookie: piece[..<equals].trimmed, piece[(equals + 1)...].trimmed))
                }
            } else if entry.known == .authorization || credentials.contains(fields.bytes.span.extracting(entry.nameRange)) {
                all.append(Self.bytes(field: fields.bytes[entry.nameRange], fields.bytes[entry.valueRange]))
            }
        }
        return all
    }

    private static func bytes(field name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        CacheKey.appendPart(name.map(\.asFieldNameByte), to: &bytes)
        CacheKey.appendPart(Array(value), to: &bytes)
        return bytes
    }

    private static func bytes(cookie name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        // No field name contains a space.
        CacheKey.appendPart(Array("a cookie".utf8), to: &bytes)
        CacheKey.appendPart(Array(name), to: &bytes)
        CacheKey.appendPart(Array(value), to: &bytes)
        return bytes
    }

    /// Returns whether a response sets a cookie that is a credential, or one that cannot be parsed.
    public func areChanged(by response: Fields) -> Bool {
        response.all(.setCookie).contains { line in
            guard let cookies, let pair = CredentialCookies.pair(setBy: line) else { return true }
            return cookies.isCounted(pair)
        }
    }
}
