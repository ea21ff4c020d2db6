// Settings of a route. A setting that also exists for all paths defaults to its value there.

import CachePolicy
import HTTPCore
import ReverseProxy

public enum RouteTable {
    private static let hour = 3_600_000

    public static let all: [Setting<CisternSettings.Route>] =
        [
            Setting(path: "name", binding: .text(\.rules.name), help: "Name of the route in metrics and logs: letters, digits, - and _."),
            Setting(
                path: "path", binding: .text(\.path),
                help:
                    "Pattern of the paths: * matches one segment, a final ** any rest or none. Case and a final slash count. The first match applies."
            ),
            Setting(
                path: "cache", binding: .choice(\.rules.usesCache, [("on", true), ("off", false)]),
                help:
                    "off: Cistern only forwards the route's requests. Nothing is stored, shared, collapsed or rescued, and stored responses are purged."
            ),
            Setting(
                path: "mode", binding: .choice(\.rules.mode),
                help: "As cache.mode. If unset, the route has the current mode of all paths."),
            Setting(
                path: "compress", binding: .choice(\.rules.compression), help: "As cache.compress."),
            Setting(
                path: "rescue_after", binding: .duration(\.rules.rescueAfter, 0...hour), help: "As cache.rescue_after."),
            Setting(
                path: "rescue_with_shared", binding: .choice(\.rules.sharedRescueMode),
                help: "As cache.rescue_with_shared."),
            Setting(path: "refresh_ahead", binding: .count(\.rules.refreshAhead, 0...99), help: "As cache.refresh_ahead."),
            Setting(
                path: "allow", binding: .list(\.access.allow),
                help: "As access.allow, for clients that the listener admits."),
            Setting(path: "deny", binding: .list(\.access.deny), help: "As access.deny, for clients that the listener admits."),
            Setting(
                path: "client_certificate", binding: .flag(\.rules.needsCertificate),
                help: "Whether requests need a connection with a verified client certificate. Others get 403."),
            Setting(
                path: "methods", binding: .list(\.methods),
                help:
                    "Methods, besides GET and HEAD, with responses that are stored under the request's content: QUERY, or POST if it only reads."
            ),
            Setting(
                path: "content_limit", binding: .size(\.rules.contentLimitBytes, 0...(16 << 20)),
                help: "Maximum content length of requests with these methods. Responses to longer requests are not stored."),
            Setting(
                path: "stream", binding: .flag(\.rules.streams),
                help: "Whether responses are streams: forwarded as they arrive, without a total time limit, never stored or rescued."),
            Setting(
                path: "upgrade", binding: .list(\.upgrade),
                help:
                    "Protocols that clients may upgrade to, such as websocket. Cistern then forwards bytes in both directions and stores nothing."
            ),
            Setting(
                path: "invalidates_target", binding: .flag(\.rules.invalidatesTarget),
                help:
                    "Whether a write invalidates the stored responses of its target. Disable it for a target that serves all requests, as in GraphQL."
            ),
            Setting(
                path: "invalidates_collection", binding: .flag(\.rules.invalidatesCollection),
                help: "Whether a write to /users/1 also invalidates /users, with any arguments."),
            Setting(
                path: "arguments.sort", binding: .flag(\.rules.arguments.sorts),
                help: "Whether the order of arguments is ignored. The order of several values of one argument always matters."),
            Setting(
                path: "arguments.ignore", binding: .list(\.arguments.ignore),
                help: "Arguments that are not part of the cache key. A final * matches any rest, as in utm_*."),
            Setting(
                path: "arguments.only", binding: .list(\.arguments.only),
                help: "The only arguments that are part of the cache key. Empty for all."),
            Setting(
                path: "arguments.drop", binding: .list(\.arguments.drop),
                help: "Arguments that are removed before a request is sent to the upstream. A final * matches any rest. Empty for none."),
            Setting(
                path: "arguments.ignore_case", binding: .flag(\.rules.arguments.ignoresCase),
                help: "Whether upper and lower case are equal in arguments."),
        ] + demands("good", \.good, \.rules.good, "A good response") + demands("keep_if", \.keepIf, \.rules.kept, "A stored response")
        + FreshnessGroup.all.map { $0.within(\.self, help: "As cache.\($0.path).") } + CredentialSettingsTable.all
        + CrossOriginGroup.all.map { $0.within(\.self, help: "As \($0.path).") }
        + UpstreamFieldsGroup.all.map { $0.within(\.self, help: "As upstream.\($0.path).") } + RetiredSettings.ofRoute

    /// All settings that are not retired.
    public static var current: [Setting<CisternSettings.Route>] { all.filter { $0.replacement == nil } }

    /// Requirements for responses.
    /// - Parameter subject: the responses concerned, as the beginning of a sentence.
    private static func demands(
        _ group: String, _ texts: WritableKeyPath<CisternSettings.Route, CisternSettings.Demands>,
        _ rules: WritableKeyPath<CisternSettings.Route, GoodResponse>, _ subject: String
    ) -> [Setting<CisternSettings.Route>] {
        [
            Setting(
                path: "\(group).content_types", binding: .list(texts.appending(path: \.contentTypes)),
                help: "\(subject) has one of these media types: type/subtype or +suffix."),
            Setting(
                path: "\(group).min_bytes", binding: .size(rules.appending(path: \.minimumBytes), 0...(1 << 30)),
                help: "\(subject) has at least this many bytes."),
            Setting(
                path: "\(group).max_bytes", binding: .size(rules.appending(path: \.maximumBytes), 0...(1 << 30)),
                help: "\(subject) has at most this many bytes; 0 for no limit."),
            Setting(
                path: "\(group).must_have", binding: .list(texts.appending(path: \.mustHave)),
                help: "\(subject) has a value at each of these JSON Pointers."),
            Setting(
                path: "\(group).must_not_have", binding: .list(texts.appending(path: \.mustNotHave)),
                help: "\(subject) has no value at any of these JSON Pointers."),
            Setting(
                path: "\(group).shrink_limit", binding: .count(rules.appending(path: \.shrinkLimit), 0...100),
                help: "\(subject) has at least this percentage of the length of the response that it replaces; 0 for any."),
        ]
    }
}

extension CisternSettings.Route {
    /// Mistakes that involve several settings of the route.
    var problems: [String] {
        guard name.isWord else { return ["a route needs a name of letters, digits, - and _"] }
        var problems: [String] = []
        if let mistake = RoutePattern.mistake(in: path) { problems.append("route \(name): \(mistake)") }
        if rules.streams, !methods.isEmpty {
            problems.append("route \(name): stream and methods exclude each other, because streams are not stored: remove one of them")
        }
        if !rules.usesCache, !methods.isEmpty {
            problems.append("route \(name): cache: off and methods exclude each other, because nothing is stored: remove one of them")
        }
        return problems
    }
}

extension String {
    /// Whether the text consists of letters, digits, `-` and `_`.
    public var isWord: Bool {
        !isEmpty && utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
    }
}
