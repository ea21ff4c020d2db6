// Classifies request fields by name: what a field may mean for the response. A field that is not known to be harmless counts as
// significant: an upstream may select an account or a version by any field.

import Forwarding
import HTTPCore

public enum RequestFieldKind: UInt8, Sendable {
    /// The field selects neither an account nor a representation, or the caching rules already handle it.
    case harmless
    /// The field is part of the cache key's partition.
    case credential
    /// The response may depend on the field.
    case unknown
}

public struct RequestFieldKinds: Sendable {
    private let credentials: CredentialNames
    /// Names in lower case.
    private let harmless: Set<ByteKey>

    /// - Parameter harmless: names in lower case.
    public init(credentials: CredentialNames, harmless: some Sequence<String>) {
        self.credentials = credentials
        self.harmless = Set(harmless.map { ByteKey(Array($0.utf8)) })
    }

    /// Uses the credential names and the lists of harmless fields of these settings.
    public init(_ settings: CachePolicySettings) {
        // `keyFields` are part of every cache key, so they need no further separation.
        self.init(credentials: settings.credentials.names, harmless: settings.harmlessFields + settings.fieldsSetAnew + settings.keyFields)
    }

    /// Returns the kind of a field. The name is compared without regard to case. Credentials take precedence: `X-Request-Token` remains a
    /// credential even if it is also listed as harmless.
    public func kind(of name: Span<UInt8>) -> RequestFieldKind {
        if credentials.separates(name) { return .credential }
        if credentials.contains(name) { return .harmless }
        let lowercased = name.indices.map { name[$0].asciiLowercased }
        if harmless.contains(ByteKey(lowercased)) || lowercased.starts(with: Self.browserPrefix) || ConnectionField.isName(name) {
            return .harmless
        }
        return .unknown
    }

    /// Scripts cannot set a field with this prefix (Fetch §2.2.2).
    private static let browserPrefix = Array("sec-".utf8)
}

/// Applies the operator's changes to the list of harmless fields: `+name` adds a name, `-name` removes one.
public enum HarmlessFields {
    /// Returns the changed list. Added names are in lower case.
    public static func changed(_ names: [String], by changes: [String]) -> [String] {
        let changes = changes.map { $0.lowercased() }
        let removed = Set(changes.filter { $0.hasPrefix("-") }.map { String($0.dropFirst()) })
        let added = changes.filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) }
        return names.filter { !removed.contains($0) } + added
    }
}
