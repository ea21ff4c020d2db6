// Formats the declarations of all settings as Configuration/Reference/settings.md.

import Settings

struct SettingsPage {
    private(set) var text = """
        <!-- Generated from the declarations: CISTERN_WRITE_SETTINGS=1 swift test --filter SettingsPageTests -->

        # Settings

        Every setting with its type and default. [How settings are given](../README.md#how-settings-are-given) describes the file, the
        environment and the command line. [cistern.yaml](../cistern.yaml) is a complete file with all defaults.

        A duration is written as `1500ms`, `30s`, `2m` or `1h`, a size as `512KiB`, `64MiB` or `2GiB`. *Per route* and *per API* mean that
        an entry of [`routes`](#routes) or [`apis`](#apis) can have another value.


        """

    /// Longest line.
    private static let width = 136

    /// The introduction of each group.
    private static let groups: [(name: String, text: String)] = [
        ("upstream", "The API behind Cistern. See [When the upstream fails](../Concepts/When-the-Upstream-Fails.md)."),
        ("failure", "The failure memory. See [When the upstream fails](../Concepts/When-the-Upstream-Fails.md#failure-memory)."),
        ("process", "Addresses, trusted proxies and event loops. See [Behind a proxy](../Guides/Behind-a-Proxy.md)."),
        ("access", "Which clients may send requests. See [Security model](../Concepts/Security-Model.md#access-lists)."),
        ("admin", "The admin interface. See [Admin API](admin-api.md)."),
        ("tls", "TLS with clients. See [HTTPS](../Guides/HTTPS.md)."),
        ("store", "Stored responses on disk. See [Limits](../Concepts/Limits.md#the-disk)."),
        ("cache", "See [Keeping and serving](../Concepts/Keeping-and-Serving.md)."),
        ("cache.freshness", "See [Freshness](../Concepts/Freshness.md)."),
        ("credentials", "Partitions of users. See [Users and partitions](../Concepts/Users-and-Partitions.md)."),
        ("limits", "See [Limits](../Concepts/Limits.md)."), ("timeouts", "Timeouts of client connections."),
        ("forwarding", "Fields that are added, changed or removed. See [Security model](../Concepts/Security-Model.md)."),
        ("cors", "See [Browser apps](../Guides/Browser-Apps.md)."),
        ("log", "See [Log fields](log-fields.md)."),
        ("tracing", "See [Traces](log-fields.md#traces)."),
        ("share", "Several nodes. See [Several nodes](../Guides/Several-Nodes.md)."),
    ]

    init(value: (Setting<CisternSettings>) -> String) {
        let names = SettingsTable.current.map { Self.group(of: $0.path) }
        var order: [String] = []
        for name in names where !order.contains(name) { order.append(name) }
        text += Self.wrapped(
            (order + ["routes", "apis", "addresses", "certificates", "targets"]).map { "[\($0)](#\(Self.anchor($0)))" }
                .joined(separator: " · "))
        for group in order {
            text += "\n## \(group)\n"
            if let words = Self.groups.first(where: { $0.name == group })?.text, !words.isEmpty { text += "\n" + Self.wrapped(words) }
            for setting in SettingsTable.current where Self.group(of: setting.path) == group { add(setting, value(setting)) }
        }
        addLists()
    }

    private static func group(of path: String) -> String {
        if path.hasPrefix("cache.freshness.") { return "cache.freshness" }
        return path.contains(".") ? String(path.prefix { $0 != "." }) : "process"
    }

    private static func anchor(_ heading: String) -> String { heading.filter { $0.isLetter || $0.isNumber || "-_".contains($0) } }

    private mutating func add(_ setting: Setting<CisternSettings>, _ value: String) {
        text += "\n### `\(setting.path)`\n\n" + Self.wrapped(setting.help)
        var facts = [Self.type(setting)]
        let isLong = value.count > 90
        facts.append(value == "\"\"" || setting.path == "upstream.url" ? "no default" : isLong ? "default below" : "default `\(value)`")
        let last = String(setting.path[setting.path.index(after: setting.path.firstIndex(of: ".") ?? setting.path.startIndex)...])
        if ["upstream.", "failure.", "cache.", "credentials.", "cors."].contains(where: setting.path.hasPrefix) {
            let own = setting.path.hasPrefix("credentials.") || setting.path.hasPrefix("cors.") ? setting.path : last
            let isOfRoute = !setting.path.hasPrefix("upstream.") || setting.path.hasPrefix("upstream.fields.")
            if isOfRoute, RouteTable.all.contains(where: { $0.path == own && $0.replacement == nil }) {
                facts.append("per route")
            }
            if APITable.all.contains(where: { $0.path == own && $0.replacement == nil }) { facts.append("per API") }
        }
        if setting.changes != nil { facts.append("takes `+name` and `-name`") }
        if setting.needsRestart { facts.append("**needs a restart**") }
        text += "\n" + Self.wrapped(facts.joined(separator: " · "))
        if isLong { text += "\n```text\n" + Self.wrapped(value) + "```\n" }
    }

    private static func type<Root>(_ setting: Setting<Root>) -> String {
        switch setting.binding.kind {
        case .text: "Text"
        case .choice(let words): "One of " + words.map { $0.isEmpty ? "empty" : "`\($0)`" }.joined(separator: ", ")
        case .list: "List"
        case .items where setting.path == "notify": "List of [targets](#targets)"
        case .items: setting.path.hasSuffix("certificates") ? "List of [certificates](#certificates)" : "List of [addresses](#addresses)"
        case .flag: "`true` or `false`"
        case .number(.count, let range): "Number from \(range.lowerBound) to \(range.upperBound)"
        case .number(.size, _): "Size"
        case .number(.duration, _): "Duration"
        case .number(.share, _): "Fraction from 0 to 1"
        }
    }

    // MARK: Settings of list entries

    private mutating func addLists() {
        text += "\n## routes\n\n"
        text += Self.wrapped("A list. The first route that matches the path applies. See [Cache keys](../Concepts/Cache-Keys.md#routes).")
        addEntries(RouteTable.all)
        text += "\n## apis\n\n"
        text += Self.wrapped("A list of APIs, instead of `upstream.url` and `routes`. See [Several APIs](../Guides/Several-APIs.md).")
        addEntries(APITable.all)
        text += "\n- `routes`: routes of this API.\n"
        text += "\n## addresses\n\n" + Self.wrapped("An entry of `listen` or `admin_listen`: an address, or a mapping with these settings.")
        addEntries(CisternSettings.Listener.table)
        text +=
            "\n## certificates\n\n" + Self.wrapped("An entry of `tls.certificates`: `CERTIFICATE:KEY`, or a mapping with these settings.")
        addEntries(CisternSettings.Certificate.table)
        text += "\n## targets\n\n" + Self.wrapped("An entry of `notify`: a file with a URL, or a mapping with these settings.")
        addEntries(CisternSettings.Notify.table)
    }

    /// Lists settings. Settings that override a global setting follow in one paragraph.
    private mutating func addEntries<Root>(_ settings: [Setting<Root>]) {
        let current = settings.filter { $0.replacement == nil }
        let global = Set(SettingsTable.current.map(\.help))
        let isOverride = { (setting: Setting<Root>) in
            setting.help.hasPrefix("As cache.") || setting.help.hasPrefix("As upstream.")
                || setting.help.hasPrefix("As failure.") || global.contains(setting.help)
        }
        text += "\n"
        for setting in current where !isOverride(setting) {
            text += Self.wrapped("- `\(setting.path)`: \(setting.help) \(Self.type(setting)).", indent: "  ")
        }
        let overrides = current.filter(isOverride).map { "`\($0.path)`" }
        guard !overrides.isEmpty else { return }
        text += "\n" + Self.wrapped("With the meaning of the global setting of that name: \(overrides.joined(separator: ", ")).")
    }

    /// Breaks text into lines. Words between backquotes may be broken as well, which Markdown joins again.
    private static func wrapped(_ words: String, indent: String = "") -> String {
        var (lines, line) = ("", "")
        for word in words.split(separator: " ") {
            if !line.isEmpty, line.count + word.count + 1 > width {
                lines += line + "\n"
                line = indent + word
            } else {
                line += (line.isEmpty ? "" : " ") + word
            }
        }
        return lines + line + "\n"
    }
}
