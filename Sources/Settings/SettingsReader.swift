// Puts the layers together: defaults, then the file, then the environment, then the command line. All mistakes are gathered and told at once.

package struct SettingsReader {
    package private(set) var settings = CisternSettings()
    package private(set) var mistakes: [ConfigurationMistake] = []
    /// Whether every file that was named could be read; if not, what seems to be missing may stand there.
    package private(set) var isComplete = true
    /// Paths of the settings that have the profile's values, since nobody has set them.
    package private(set) var profiled: [String] = []
    private var routeNodes: [(file: String, node: YAMLNode)] = []
    /// Where the value of a setting, or a route, was said last.
    private var places: [String: (file: String, line: Int)] = [:]

    package init() {}

    /// As the lines stand in the file; what has no line comes behind, as it was found.
    package var mistakesInOrder: [ConfigurationMistake] {
        let place = { (mistake: ConfigurationMistake) in mistake.line > 0 ? mistake.line : Int.max }
        return mistakes.enumerated().sorted { (place($0.element), $0.offset) < (place($1.element), $1.offset) }.map(\.element)
    }

    /// - Parameter text: the file's bytes.
    package mutating func read(file: String, text: [UInt8]) {
        do throws(ConfigurationMistake) {
            guard let root = try YAMLFile.parse(text, file: file) else { return }
            guard case .mapping = root else {
                return add(file, root.line, "the file must hold settings: names, colons and values")
            }
            var group = settings
            let lines = read(root, SettingsTable.all, into: &group, named: "", file)
            for (path, line) in lines { places[path] = (file, line) }
            settings = group
        } catch {
            mistakes.append(error)
            isComplete = false
        }
    }

    /// A file that cannot even be opened.
    package mutating func addUnreadable(file: String, _ reason: String) {
        add(file, 0, "cannot be read: \(reason)")
        isComplete = false
    }

    /// Reads what a mapping says of the settings in `table`.
    /// - Parameter name: what the mistakes call the group, with the dot behind it; empty for the whole.
    /// - Returns: the line of each name in it.
    @discardableResult
    private mutating func read<Root>(
        _ node: YAMLNode, _ table: [Setting<Root>], into root: inout Root, named name: String, _ file: String
    ) -> [String: Int] {
        var reading = GroupReading(table: table, root: root, name: name, file: file)
        reading.read(node, prefix: "")
        root = reading.root
        mistakes += reading.mistakes
        if let routes = reading.routes { routeNodes.append((file, routes)) }
        return reading.lines
    }

    /// Reads the routes, which begin as what the other settings say together: so this comes after all layers.
    package mutating func finish() {
        applyProfile()
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
                let lines = read(item, RouteTable.all, into: &route, named: "routes.", file)
                for problem in route.problems { add(file, item.line, problem) }
                for (path, line) in lines { places["routes.\(route.name).\(path)"] = (file, line) }
                if settings.routes.contains(where: { $0.name == route.name }) {
                    add(file, item.line, "two routes are called \"\(route.name)\"")
                }
                settings.routes.append(route)
            }
        }
        routeNodes = []
    }

    /// Gives the profile's values to all settings that nobody has set.
    private mutating func applyProfile() {
        for (path, text) in SettingsProfile.values[settings.cache.profile] ?? [] where places[path] == nil {
            guard let setting = SettingsTable.all.first(where: { $0.path == path }) else { continue }
            _ = setting.apply(text, to: &settings)
            profiled.append(path)
        }
    }

    /// Reads `CISTERN_…`; what begins so and names no setting is a mistake.
    package mutating func read(environment: [String: String]) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("CISTERN_") && name != "CISTERN_CONFIG" {
            guard let setting = SettingsTable.all.first(where: { $0.environment == name }) else {
                if Self.isServiceLink(name, value) { continue }
                if let (path, instead) = SettingsTable.retired.first(where: { Setting<CisternSettings>.environment(of: $0.key) == name }) {
                    add("environment", 0, "\(name), which was for \(path), is no longer a setting: \(instead)")
                    continue
                }
                add("environment", 0, "\(name) names no setting\(NearName.suggestion(name, among: SettingsTable.all.map(\.environment)))")
                continue
            }
            places[setting.path] = ("environment", 0)
            if let problem = setting.apply(.one(value), to: &settings) { add("environment", 0, "\(name) \(problem)") }
        }
    }

    /// Kubernetes tells each container of its neighbours in this way; one called cistern, or cistern-…, is no mistake.
    private static func isServiceLink(_ name: String, _ value: String) -> Bool {
        name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || (name.contains("_PORT") && value.contains("://"))
            || name.split(separator: "_PORT_").last.map { $0.first?.isNumber == true && $0.contains("_") } == true
    }

    /// - Parameters:
    ///   - path: the setting's path.
    ///   - option: how the user spelt it.
    package mutating func read(path: String, _ text: SettingText, option: String) {
        if let instead = SettingsTable.retired[path] {
            return add("command line", 0, "\(path) is no longer a setting: \(instead)")
        }
        guard let setting = SettingsTable.all.first(where: { $0.path == path }) else {
            return add("command line", 0, "\(path) is not a setting\(NearName.suggestion(path, among: SettingsTable.all.map(\.path)))")
        }
        places[path] = ("command line", 0)
        if let problem = setting.apply(text, to: &settings) { add("command line", 0, "\(option) \(problem)") }
    }

    /// For what the command line says of several settings at once.
    package mutating func change<Failure: Error>(_ change: (inout CisternSettings) throws(Failure) -> Void) throws(Failure) {
        try change(&settings)
    }

    /// Whether somebody has said it, or it stands at its default.
    package func isGiven(_ path: String) -> Bool { places[path] != nil }

    /// For what only the whole can tell of one setting: told where its value was said.
    /// - Parameter path: the setting's, or `routes`, the route's name and the path in it.
    package mutating func add(about path: String, _ sentence: String) {
        let place = places[path] ?? ("settings", 0)
        add(place.file, place.line, sentence)
    }

    package mutating func add(_ file: String, _ line: Int, _ sentence: String) {
        mistakes.append(ConfigurationMistake(file: file, line: line, sentence: sentence))
    }
}
