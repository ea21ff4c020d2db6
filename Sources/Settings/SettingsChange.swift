// What is different between the settings that hold and those that were read again.

public struct SettingsChange: Sendable {
    /// Those that hold from now on: the new ones, but for what needs a restart.
    public private(set) var settings: CisternSettings
    /// The names of those that have another value than before; `routes.NAME` and `apis.NAME` where anything of one is different.
    public private(set) var changed: [String] = []
    /// The names of those that keep their value until the next start.
    public private(set) var awaitingRestart: [String] = []
    /// The names of APIs that are as they were; the empty one where there is one API only.
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
        changed += Self.names(former.routes, settings.routes, \.name).map { "routes.\($0)" }
        changed += Self.names(former.apis, settings.apis, \.name).map { "apis.\($0)" }
        // Their order counts too.
        if changed.isEmpty, former.routes != settings.routes { changed.append("routes") }
        if changed.isEmpty, former.apis != settings.apis { changed.append("apis") }
        unchangedAPIs =
            settings.apis.isEmpty
            ? (former == settings ? [""] : []) : Set(settings.apis.filter(former.apis.contains).map(\.name))
    }

    private mutating func keep(_ setting: Setting<CisternSettings>, of former: CisternSettings) {
        setting.copy(from: former, to: &settings)
        for place in settings.apis.indices { setting.copy(from: former, to: &settings.apis[place].settings) }
    }

    /// Of those that are in one of both only, or are different.
    private static func names<Item: Equatable>(_ former: [Item], _ now: [Item], _ name: (Item) -> String) -> [String] {
        now.filter { !former.contains($0) }.map(name)
            + former.filter { one in !now.contains { name($0) == name(one) } }.map(name)
    }
}

extension Setting {
    /// Gives it the value that it has elsewhere.
    func copy(from other: Root, to root: inout Root) {
        switch binding {
        case .text(let path), .choice(let path, _): root[keyPath: path] = other[keyPath: path]
        case .list(let path): root[keyPath: path] = other[keyPath: path]
        case .listeners(let path): root[keyPath: path] = other[keyPath: path]
        case .certificates(let path): root[keyPath: path] = other[keyPath: path]
        case .flag(let path): root[keyPath: path] = other[keyPath: path]
        case .count(let path, _), .size(let path, _), .duration(let path, _), .share(let path): root[keyPath: path] = other[keyPath: path]
        }
    }
}
