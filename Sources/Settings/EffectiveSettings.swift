// Prints the effective settings as a configuration file, with the origin of each value.

extension SettingsReader {
    /// YAML with all settings, and with the settings that routes and APIs override. User information and query strings of URLs are hidden.
    public var effective: String {
        var lines: [String] = []
        let shown = SettingsTable.all.filter { $0.replacement == nil || $0.successor == nil && isGiven($0.path) }
        let tree = SettingTree(shown.map { ($0.path, $0.yaml(in: settings), origin(of: $0.path)) })
        tree.write(to: &lines, depth: 0)
        writeRoutes(settings.routes, beginningAs: settings, named: "", to: &lines, depth: 0)
        if !settings.apis.isEmpty { lines.append("apis:") }
        for api in settings.apis {
            let prefix = "apis.\(api.name)."
            writeItem(APITable.all, api, besides: CisternSettings.API(settings), prefix, to: &lines, depth: 1)
            writeRoutes(api.settings.routes, beginningAs: api.settings, named: prefix, to: &lines, depth: 2)
        }
        return lines.map { $0 + "\n" }.joined()
    }

    private func writeRoutes(
        _ routes: [CisternSettings.Route], beginningAs settings: CisternSettings, named prefix: String, to lines: inout [String], depth: Int
    ) {
        guard !routes.isEmpty else { return }
        lines.append(String(repeating: "  ", count: depth) + "routes:")
        for route in routes {
            writeItem(
                RouteTable.all, route, besides: settings.otherRoute.forMember, "\(prefix)routes.\(route.name).", to: &lines,
                depth: depth + 1)
        }
    }

    /// Writes the settings that an item of a list overrides.
    private func writeItem<Root>(
        _ table: [Setting<Root>], _ item: Root, besides inherited: Root, _ prefix: String, to lines: inout [String], depth: Int
    ) {
        let own = table.filter { $0.successor == nil && isGiven(prefix + $0.path) || $0.yaml(in: item) != $0.yaml(in: inherited) }
        let start = lines.count
        SettingTree(own.map { ($0.path, $0.yaml(in: item), origin(of: prefix + $0.path)) }).write(to: &lines, depth: depth + 1)
        guard start < lines.count else { return }
        let indent = String(repeating: "  ", count: depth)
        lines[start] = indent + "- " + lines[start].dropFirst(indent.count + 2)
    }
}

/// Settings grouped by their paths, in the order in which the groups first occur.
private struct SettingTree {
    private var names: [String] = []
    private var values: [String: (text: String, origin: String)] = [:]
    private var groups: [String: SettingTree] = [:]

    init(_ settings: [(path: String, text: String, origin: String)]) {
        for setting in settings { add(setting.path.split(separator: ".")[...], setting.text, setting.origin) }
    }

    private init() {}

    private mutating func add(_ path: ArraySlice<Substring>, _ text: String, _ origin: String) {
        guard let name = path.first.map(String.init) else { return }
        if values[name] == nil, groups[name] == nil { names.append(name) }
        guard path.count > 1 else {
            values[name] = (text, origin)
            return
        }
        groups[name, default: SettingTree()].add(path.dropFirst(), text, origin)
    }

    func write(to lines: inout [String], depth: Int) {
        let indent = String(repeating: "  ", count: depth)
        for name in names {
            if let (text, origin) = values[name] { lines.append("\(indent)\(name): \(text)  # \(origin)") }
            guard let group = groups[name] else { continue }
            lines.append("\(indent)\(name):")
            group.write(to: &lines, depth: depth + 1)
        }
    }
}
