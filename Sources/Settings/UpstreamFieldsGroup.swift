// Settings of the fields in requests to the upstream, of all paths, of each API and of each route.

import CachePolicy

extension CisternSettings {
    /// Changes to the fields of requests to the upstream.
    public struct UpstreamFields: Sendable, Equatable {
        public struct Changes: Sendable, Equatable {
            /// `Name: value`.
            public var set: [String] = []
            public var remove: [String] = []
        }

        public var own = Changes()
        /// Those of the API and of all paths, which apply before `own`. The most general ones come first.
        public private(set) var inherited: [Changes] = []
        /// Values that were read from files and from the environment, by their reference.
        public var loaded: [String: [UInt8]] = [:]

        /// Changes for an API or a route that begins with these settings.
        var forMember: UpstreamFields {
            var fields = UpstreamFields()
            fields.inherited = inherited + [own]
            return fields
        }

        /// All changes in the order in which they apply.
        public var all: [Changes] { inherited + [own] }
    }
}

extension CisternSettings.Route {
    /// The settings with which a route or an API begins.
    var forMember: CisternSettings.Route {
        var route = self
        route.upstreamFields = upstreamFields.forMember
        return route
    }
}

/// A field as in the settings: `Name: value`, `Name: file:PATH` or `Name: env:VARIABLE`.
public struct UpstreamFieldText: Sendable, Equatable {
    public enum Source: Sendable, Equatable {
        case literal([UInt8])
        case file(String)
        case variable(String)
    }

    public let name: String
    /// The value, or the reference to it.
    private let value: String

    /// nil if the text has no colon.
    public init?(_ text: String) {
        guard let colon = text.firstIndex(of: ":") else { return nil }
        name = String(text[..<colon].trimmingSpaces)
        value = String(text[text.index(after: colon)...].trimmingSpaces)
    }

    public var source: Source {
        if value.hasPrefix("file:") { return .file(String(value.dropFirst(5))) }
        return value.hasPrefix("env:") ? .variable(String(value.dropFirst(4))) : .literal(Array(value.utf8))
    }

    /// The reference to the value; nil if the settings contain the value itself.
    public var reference: String? { if case .literal = source { nil } else { value } }

    /// The field without a secret.
    static func shown(_ text: String) -> String {
        guard let field = UpstreamFieldText(text) else { return text.isEmpty ? "" : SecretNames.redaction }
        return "\(field.name): \(field.reference ?? SecretNames.redaction)"
    }
}

enum UpstreamFieldsGroup {
    static let all: [Setting<CisternSettings.Route>] = [
        Setting(
            path: "fields.set", binding: .list(\.upstreamFields.own.set),
            help:
                "Request fields that are set for the upstream, as Name: value. They replace the client's fields. A value of file:PATH or env:NAME is read from there. An API or a route adds to the fields of all paths.",
            holdsFields: true),
        Setting(
            path: "fields.remove", binding: .list(\.upstreamFields.own.remove),
            help: "Names of request fields that are not forwarded. An API or a route adds to the names of all paths."),
    ]
}
