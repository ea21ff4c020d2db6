// The settings of one of several APIs: its requests, its upstreams, and overrides of the groups upstream, failure and cache. An override is
// named without its group: `rescue_after` is `cache.rescue_after`.

extension CisternSettings {
    /// One of several APIs.
    public struct API: Sendable {
        public var name = ""
        /// Host names of its requests; empty for any host.
        public var host: [String] = []
        /// Path prefix of its requests; empty for all paths.
        public var path = ""
        public var stripPath = false
        /// Base URLs. The first upstream that is not down receives the requests.
        public var upstream: [String] = []
        /// All settings with the values that apply to this API.
        public var settings: CisternSettings

        public init(_ settings: CisternSettings) {
            self.settings = settings
            self.settings.otherRoute = settings.otherRoute.forMember
            self.settings.routes = []
            self.settings.apis = []
        }
    }
}

public enum APITable {
    public static let all: [Setting<CisternSettings.API>] =
        [
            Setting(
                path: "name", binding: .text(\.name), help: "Name of the API in metrics, logs and cache keys: letters, digits, - and _."),
            Setting(
                path: "host", binding: .list(\.host),
                help:
                    "Host names of the API, such as users.example.com or *.example.com. The most specific match applies. Empty for any host."
            ),
            Setting(
                path: "path", binding: .text(\.path),
                help: "Path prefix of the API. The longest match applies. Empty for all paths."),
            Setting(path: "strip_path", binding: .flag(\.stripPath), help: "Remove the API's path prefix from requests to the upstream."),
            Setting(
                path: "upstream", binding: .list(\.upstream),
                help: "Base URL of the API, or several. The next one is used while the previous one is unreachable."),
        ] + overrides + CredentialSettingsTable.all.map { $0.within(\.settings.otherRoute) }
        + CrossOriginGroup.all.map { $0.within(\.settings.otherRoute, help: "As \($0.path).") }

    /// All settings that are not retired.
    public static var current: [Setting<CisternSettings.API>] { all.filter { $0.replacement == nil } }

    /// Settings of other groups that an API may override.
    private static var overrides: [Setting<CisternSettings.API>] {
        SettingsTable.all.compactMap { setting -> Setting<CisternSettings.API>? in
            guard let group = groups.first(where: setting.path.hasPrefix), !kept.contains(setting.path) else { return nil }
            var own: Setting<CisternSettings.API> = setting.within(
                \.settings, path: String(setting.path.dropFirst(group.count)), help: "As \(setting.path).")
            own.replacement = setting.replacement?.replacing(group, with: "")
            return own
        }
    }

    private static let groups = ["upstream.", "failure.", "cache."]
    /// Settings that apply to the whole process, or that `upstream` replaces.
    private static let kept = ["upstream.url", "cache.profile", "cache.recoded_memory"]
}

extension CisternSettings.API {
    /// Mistakes that involve several settings of the API.
    var problems: [String] {
        guard name.isWord else { return ["an API needs a name of letters, digits, - and _"] }
        var problems: [String] = []
        if upstream.isEmpty { problems.append("API \(name) has no upstream: set it to the base URL") }
        if !path.isEmpty, !path.hasPrefix("/") || path.contains(where: { "?#*".contains($0) }) {
            problems.append("API \(name): path must begin with / and have no ?, # or *, not \"\(path)\"")
        }
        if stripPath, path.split(separator: "/").isEmpty {
            problems.append("API \(name): strip_path is true, but no path is set: set path to the prefix to remove")
        }
        return problems
    }
}

extension CisternSettings.API: Equatable {
    public static func == (one: CisternSettings.API, other: CisternSettings.API) -> Bool {
        APITable.all.areEqual(one, other) && one.settings == other.settings
    }
}
