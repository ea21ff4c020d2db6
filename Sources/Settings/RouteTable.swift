// Settings of a route. A setting that also exists for all paths defaults to its value there.

import CachePolicy
import ReverseProxy

public enum RouteTable {
    private static let hour = 3_600_000

    public static let all: [Setting<CisternSettings.Route>] =
        [
            Setting(path: "name", binding: .text(\.rules.name), help: "What metrics and logs call it: letters, digits, - and _."),
            Setting(
                path: "path", binding: .text(\.path),
                help: "The paths it is for: * stands for one segment, ** at the end for any rest. The first route that fits counts."),
            Setting(
                path: "mode", binding: .choice(\.rules.mode),
                help: "As cache.mode; without it that of all paths, also when it is switched."),
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
                help: "As access.allow, for clients that the listener lets in."),
            Setting(path: "deny", binding: .list(\.access.deny), help: "As access.deny, for clients that the listener lets in."),
            Setting(
                path: "client_certificate", binding: .flag(\.rules.needsCertificate),
                help: "Only for connections on which a client certificate was presented and found good; others get 403."),
            Setting(
                path: "methods", binding: .list(\.methods),
                help:
                    "Methods besides GET and HEAD with stored responses, keyed by the request's content: QUERY, and POST where it only reads."
            ),
            Setting(
                path: "content_limit", binding: .size(\.rules.contentLimitBytes, 0...(16 << 20)),
                help: "Longest content of such a request; longer ones are passed on and not kept."),
            Setting(
                path: "stream", binding: .flag(\.rules.streams),
                help: "Responses are streams of whatever type: passed on as they come, never kept or rescued, as long as they like."),
            Setting(
                path: "upgrade", binding: .list(\.upgrade),
                help: "Protocols that clients may change to, such as websocket: then bytes go both ways as they come, and nothing is kept."),
            Setting(
                path: "invalidates_target", binding: .flag(\.rules.invalidatesTarget),
                help:
                    "A write invalidates the stored responses of its target. Switch it off for a target that serves all requests, as in GraphQL."
            ),
            Setting(
                path: "invalidates_collection", binding: .flag(\.rules.invalidatesCollection),
                help: "A write to /users/1 makes /users invalid too, with any arguments."),
            Setting(
                path: "arguments.sort", binding: .flag(\.rules.arguments.sorts),
                help: "Whether the order of arguments is ignored; the order of values of one name always counts."),
            Setting(
                path: "arguments.ignore", binding: .list(\.arguments.ignore),
                help: "Arguments that make no difference; * at the end stands for any rest, as in utm_*."),
            Setting(
                path: "arguments.only", binding: .list(\.arguments.only), help: "The only arguments that make a difference; empty for all."),
            Setting(
                path: "arguments.drop", binding: .list(\.arguments.drop),
                help: "Arguments that are removed from what is sent to the upstream; * at the end stands for any rest. Empty: none."),
            Setting(
                path: "arguments.ignore_case", binding: .flag(\.rules.arguments.ignoresCase),
                help: "Whether the case of letters in arguments is ignored."),
        ] + demands("good", \.good, \.rules.good, "A good response") + demands("keep_if", \.keepIf, \.rules.kept, "A response that is kept")
        + FreshnessGroup.all.map { $0.within(\.self, help: "As cache.\($0.path).") } + CredentialSettingsTable.all
        + CrossOriginGroup.all.map { $0.within(\.self, help: "As \($0.path).") } + RetiredSettings.ofRoute

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
                help: "\(subject) is not shorter."),
            Setting(
                path: "\(group).max_bytes", binding: .size(rules.appending(path: \.maximumBytes), 0...(1 << 30)),
                help: "\(subject) is not longer; 0 for no limit."),
            Setting(
                path: "\(group).must_have", binding: .list(texts.appending(path: \.mustHave)),
                help: "\(subject) has a value at each of these JSON Pointers."),
            Setting(
                path: "\(group).must_not_have", binding: .list(texts.appending(path: \.mustNotHave)),
                help: "\(subject) has no value at any of these JSON Pointers."),
            Setting(
                path: "\(group).shrink_limit", binding: .count(rules.appending(path: \.shrinkLimit), 0...100),
                help: "\(subject) has at least this percentage of the stored one's length; 0 for any."),
        ]
    }
}

extension CisternSettings.Route {
    /// Mistakes that involve several settings of the route.
    var problems: [String] {
        guard name.isWord else { return ["a route needs a name of letters, digits, - and _"] }
        var problems: [String] = []
        if !path.hasPrefix("/") { problems.append("route \(name) needs a path that begins with /") }
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        for segment in segments where segment.contains("*") && segment != "*" && segment != "**" {
            problems.append("route \(name): * stands for a whole segment, as in /users/*")
        }
        if rules.streams, !methods.isEmpty {
            problems.append("route \(name): nothing is kept of streams, so stream and methods exclude each other")
        }
        if segments.dropLast().contains("**") { problems.append("route \(name): ** can only be the last segment") }
        return problems
    }
}

extension String {
    /// Whether the text consists of letters, digits, `-` and `_`.
    var isWord: Bool { !isEmpty && utf8.allSatisfy(\.isWordByte) }
}

extension UInt8 {
    fileprivate var isWordByte: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
