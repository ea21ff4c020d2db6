// Compares the settings in effect with the settings that a reload has read.

public struct SettingsChange: Sendable {
    /// The settings after the reload: the new values, except for settings that need a restart.
    public private(set) var settings: CisternSettings
    /// Names of changed settings; `routes.NAME` and `apis.NAME` for routes and APIs with any change.
    public private(set) var changed: [String] = []
    /// Names of settings that keep their former value until the next start.
    public private(set) var awaitingRestart: [String] = []
    /// Names of unchanged APIs; the empty name if there is only one API.
    public private(set) var unchangedAPIs: Set<String> = []

    public init(from former: CisternSettings, to read: CisternSettings) {
        settings = read
        for setting in SettingsTable.all where setting.text(in: former) != setting.text(in: read) {
            if setting.needsRestart {
                keep(setting, of: former)
                awaitingRestart.append(setting.path)
            } else {
                changed.append(setting.path)
            }
        }
        if former.otherRoute.upstreamFields.loaded != read.otherRoute.upstreamFields.loaded, !changed.contains("upstream.fields.set") {
            changed.append("upstream.fields.set")
        }
        changed += Self.names(former.routes, settings.routes, \.name).map { "routes.\($0)" }
        changed += Self.names(former.apis, settings.apis, \.name).map { "apis.\($0)" }
        // The order of routes and APIs is significant.
        if changed.isEmpty, former.routes != settings.routes { changed.append("routes") }
        if changed.isEmpty, former.apis != settings.apis { changed.append("apis") }
        unchangedAPIs =
            settings.apis.isEmpty
            ? (former == settings ? [""] : []) : Set(settings.apis.filter(former.apis.contains).map(\.name))
    }

    private mutating func keep(_ setting: Setting<CisternSettings>, of former: CisternSettings) {
        setting.copy(from: former, to: &settings)
        for index in settings.apis.indices { setting.copy(from: former, to: &settings.apis[index].settings) }
    }

    /// Names of items that differ, or that only one of both lists contains.
    private static func names<Item: Equatable>(_ former: [Item], _ now: [Item], _ name: (Item) -> String) -> [String] {
        now.filter { !former.contains($0) }.map(name)
            + former.filter { one in !now.contains { name($0) == name(one) } }.map(name)
    }
}
