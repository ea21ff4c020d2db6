// Puts the layers together: defaults, then the file, then the environment, then the command line. All mistakes are gathered and told at once.

package struct SettingsReader {
    package private(set) var settings = CisternSettings()
    package private(set) var mistakes: [ConfigurationMistake] = []
    private var routeNodes: [(file: String, node: YAMLNode)] = []

    package init() {}

    /// - Parameter text: the file's bytes.
    package mutating func read(file: String, text: [UInt8]) {
        do throws(ConfigurationMistake) {
            guard let root = try YAMLFile.parse(text, file: file) else { return }
            guard case .mapping = root else {
                return add(file, root.line, "the file must hold settings: names, colons and values")
            }
            var group = settings
            read(root, SettingsTable.all, into: &group, named: "", file)
            settings = group
        } catch {
            mistakes.append(error)
        }
    }

    /// Reads what a mapping says of the settings in `table`.
    /// - Parameter name: what the mistakes call the group, with the dot behind it; empty for the whole.
    private mutating func read<Root>(
        _ node: YAMLNode, _ table: [Setting<Root>], into root: inout Root, named name: String, _ file: String
    ) {
        var reading = GroupReading(table: table, root: root, name: name, file: file)
        reading.read(node, prefix: "")
        root = reading.root
        mistakes += reading.mistakes
        if let routes = reading.routes { routeNodes.append((file, routes)) }
    }

    /// Reads the routes, which begin as what the other settings say together: so this comes after all layers.
    package mutating func finish() {
        for (file, node) in routeNodes {
            guard case .sequence(let items, _) = node else {
                add(file, node.line, "routes must be a list, each with a name and a path")
                continue
            }
            for item in items {
                var route = CisternSettings.Route(settings)
                guard case .mapping = item else {
                    add(file, item.line, "a route has settings of its own: a name and a path at least")
                    continue
                }
                read(item, RouteTable.all, into: &route, named: "routes.", file)
                if let problem = route.problem { add(file, item.line, problem) }
                if settings.routes.contains(where: { $0.name == route.name }) {
                    add(file, item.line, "two routes are called \"\(route.name)\"")
                }
                settings.routes.append(route)
            }
        }
        routeNodes = []
    }

    /// Reads `CISTERN_…`; what begins so and names no setting is a mistake.
    package mutating func read(environment: [String: String]) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("CISTERN_") && name != "CISTERN_CONFIG" {
            guard let setting = SettingsTable.all.first(where: { $0.environment == name }) else {
                add("environment", 0, "\(name) names no setting")
                continue
            }
            if let problem = setting.apply(.one(value), to: &settings) { add("environment", 0, "\(name) \(problem)") }
        }
    }

    /// - Parameters:
    ///   - path: the setting's path.
    ///   - option: how the user spelt it.
    package mutating func read(path: String, _ text: SettingText, option: String) {
        guard let setting = SettingsTable.all.first(where: { $0.path == path }) else {
            return add("command line", 0, "\(path) is not a setting\(NearName.suggestion(path, among: SettingsTable.all.map(\.path)))")
        }
        if let problem = setting.apply(text, to: &settings) { add("command line", 0, "\(option) \(problem)") }
    }

    /// For what only the whole can tell.
    package mutating func add(_ file: String, _ line: Int, _ sentence: String) {
        mistakes.append(ConfigurationMistake(file: file, line: line, sentence: sentence))
    }
}
