// What a request field may mean for its response, by its name. What is not known to be harmless counts: an upstream may choose an account, a version
// or a project by a field that is on nobody's list.

import HTTPCore
import WellKnownNames

public enum RequestFieldKind: UInt8, Sendable {
    /// It selects neither an account nor a representation, or the rules of caching take care of it already.
    case harmless
    /// It is part of the key's partition.
    case credential
    /// The response may depend on it.
    case unknown
}

public struct RequestFieldKinds: Sendable {
    private let credentials: CredentialNames
    /// In lower case.
    private let harmless: Set<ByteKey>

    /// - Parameter harmless: names in lower case.
    public init(credentials: CredentialNames, harmless: some Sequence<String>) {
        self.credentials = credentials
        self.harmless = Set(harmless.map { ByteKey(Array($0.utf8)) })
    }

    /// By default, under these settings.
    public init(_ settings: CachePolicySettings) {
        // What is in every key selects there.
        self.init(credentials: settings.credentials.names, harmless: settings.harmlessFields + settings.fieldsSetAnew + settings.keyFields)
    }

    /// In any case. Credentials come first: `X-Request-Token` is none the less a token because somebody calls it harmless.
    public func kind(of name: Span<UInt8>) -> RequestFieldKind {
        if credentials.contains(name) { return .credential }
        let lowercased = name.indices.map { name[$0].asciiLowercased }
        if harmless.contains(ByteKey(lowercased)) || lowercased.starts(with: Self.browserPrefix) || ConnectionField.isName(name) {
            return .harmless
        }
        return .unknown
    }

    /// Scripts cannot set such a field (Fetch §2.2.2).
    private static let browserPrefix = Array("sec-".utf8)
}

/// The operator's changes to the list of harmless fields: `+name` adds one, `-name` takes one away.
public enum HarmlessFields {
    /// In lower case.
    public static func changed(_ names: [String], by changes: [String]) -> [String] {
        let changes = changes.map { $0.lowercased() }
        let removed = Set(changes.filter { $0.hasPrefix("-") }.map { String($0.dropFirst()) })
        let added = changes.filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) }
        return names.filter { !removed.contains($0) } + added
    }
}
